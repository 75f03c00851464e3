package request

import (
	"cmp"
	"iter"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// Shape is the form in which a response contains an object: whole, only its metadata, or as a row
// of a Table.
type Shape uint8

const (
	Whole Shape = iota
	MetadataOnly
	Table
)

// MediaType is the media type of a response.
type MediaType struct {
	Encoding wire.Encoding
	Shape    Shape
	// Version is the version of the meta.k8s.io kinds that MetadataOnly and Table use: v1 or
	// v1beta1.
	Version string
	// List is true if the client requested MetadataOnly with the kind of a list,
	// PartialObjectMetadataList.
	List bool
}

// ContentType returns the Content-Type of a response with an object or a list.
func (mt MediaType) ContentType() string {
	if mt.Encoding == wire.Protobuf {
		return wire.ContentTypeProtobuf
	}
	return wire.ContentTypeJSON
}

// WatchContentType returns the Content-Type of the response to a WATCH.
func (mt MediaType) WatchContentType() string {
	if mt.Encoding == wire.Protobuf {
		return wire.ContentTypeProtobufWatch
	}
	return wire.ContentTypeJSON
}

// MediaRange is one alternative in an Accept header.
type MediaRange struct {
	MediaType
	Wildcards int // 0 for a media type without wildcards, 1 for application/*, 2 for */*
	quality   float64
}

// Accept is a parsed Accept header. It is immutable.
type Accept struct {
	ranges []MediaRange // the ranges that this package supports, best first
	strict bool         // see IsStrict
	kinds  []string     // the kinds that the header names, if strict
}

// ParseAccept parses the Accept header of a request. A request without an Accept header accepts
// every media type.
func ParseAccept(h http.Header) Accept {
	a := Accept{ranges: parseRanges(h)}
	switch headers := h.Values("Accept"); {
	case len(headers) == 0 || len(headers) == 1 && headers[0] == "":
		a.strict = true
	case len(headers) == 1:
		a.kinds, a.strict = parseStrictRanges(headers[0])
	}
	return a
}

// Negotiate returns the best media range that the caller supports. can is a function that reports
// whether the caller supports a range. Ranges with a higher quality are better. If qualities are
// equal, ranges without wildcards are better than those with wildcards, and then earlier ranges are
// better than later ones. ok is false if the caller supports no range of the header.
func (a *Accept) Negotiate(can func(MediaRange) bool) (MediaType, bool) {
	for _, c := range a.ranges {
		if can(c) {
			return c.MediaType, true
		}
	}
	return MediaType{}, false
}

// WantsProtobuf reports whether kube-apiserver would send whole objects of a built-in kind in
// protobuf to a client with this Accept header.
func (a *Accept) WantsProtobuf() bool {
	mt, ok := a.Negotiate(func(mr MediaRange) bool { return mr.Wildcards != 1 })
	return ok && mt.Encoding == wire.Protobuf && mt.Shape == Whole
}

// IsStrict reports whether kube-apiserver certainly reads the header in the same way as this
// package, and the header names either no kind or only the given kind. The kind matters because
// kube-apiserver rejects a LIST whose header names the kind of an object, and a GET whose header
// names the kind of a list.
//
// A header is not strict if it has one of these: a quote, which kube-apiserver treats as part of
// the value; a capital letter outside values; a quality on a range that is not the last; a
// wildcard, except */* as the last range; a second Accept header, which kube-apiserver ignores; an
// unknown parameter; a media type that only kube-apiserver supports.
func (a *Accept) IsStrict(kind string) bool {
	return a.strict && !slices.ContainsFunc(a.kinds, func(k string) bool { return k != kind })
}

// MediaRanges yields the media types and their parameters in a request's Accept headers. It omits
// malformed media types. For a request without an Accept header, it yields */*.
func MediaRanges(h http.Header) iter.Seq2[string, map[string]string] {
	header := strings.Join(h.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		header = anyMedia
	}
	return func(yield func(string, map[string]string) bool) {
		for part := range strings.SplitSeq(header, ",") {
			if name, params, err := mime.ParseMediaType(part); err == nil && !yield(name, params) {
				return
			}
		}
	}
}

// parseRanges returns the media ranges of an Accept header that this package supports, best first.
// If two ranges differ only in quality, it omits the worse one, so that even a long header yields
// few ranges.
func parseRanges(h http.Header) []MediaRange {
	var ranges []MediaRange
	for name, params := range MediaRanges(h) {
		mt, ok := parseMediaType(name, params)
		if !ok {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		if quality > 0 {
			ranges = append(ranges, MediaRange{mt, strings.Count(name, "*"), quality})
		}
	}
	slices.SortStableFunc(ranges, func(a, b MediaRange) int {
		return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(a.Wildcards, b.Wildcards))
	})
	var distinct []MediaRange
	for _, mr := range ranges {
		if !slices.ContainsFunc(distinct, func(d MediaRange) bool { return d.MediaType == mr.MediaType && d.Wildcards == mr.Wildcards }) {
			distinct = append(distinct, mr)
		}
	}
	return distinct
}

func parseMediaType(name string, params map[string]string) (MediaType, bool) {
	var mt MediaType
	switch name {
	case anyMedia, "application/*", wire.ContentTypeJSON:
		mt.Encoding = wire.JSON
	case wire.ContentTypeProtobuf:
		mt.Encoding = wire.Protobuf
	default:
		return mt, false
	}
	if s := params["stream"]; s != "" && s != "watch" {
		return mt, false
	}
	switch params["as"] {
	case "":
		return mt, params["g"] == "" && params["v"] == ""
	case "PartialObjectMetadata":
		mt.Shape = MetadataOnly
	case "PartialObjectMetadataList":
		mt.Shape, mt.List = MetadataOnly, true
	case "Table":
		mt.Shape = Table
		if mt.Encoding != wire.JSON {
			return mt, false
		}
	default:
		return mt, false
	}
	mt.Version = strings.Clone(params["v"]) // a copy, so that the header does not stay in memory
	return mt, params["g"] == metav1.GroupName && (mt.Version == "v1" || mt.Version == "v1beta1")
}

const (
	// maxMediaRanges is the maximum number of media ranges in a strict Accept header. kube-apiserver
	// does not preserve the order of more ranges.
	maxMediaRanges = 12
	anyMedia       = "*/*"
)

// upstreamMedia contains the media types that kube-apiserver supports and this package does not.
var upstreamMedia = []string{"application/yaml", "application/cbor"}

// rangeParams are the parameters that both kube-apiserver and this package support.
var rangeParams = []string{"as", "g", "v", "stream", "charset"}

// parseStrictRanges returns the kinds that an Accept header names. ok is false if the header is not
// strict.
func parseStrictRanges(header string) (kinds []string, ok bool) {
	if strings.Count(header, ",") >= maxMediaRanges {
		return nil, false
	}
	ranges := strings.Split(header, ",")
	for i, text := range ranges {
		kind, ok := parseStrictRange(text, i == len(ranges)-1)
		if !ok {
			return nil, false
		}
		if kind != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds, true
}

// parseStrictRange returns the kind that a media range names, or "". ok is false if the range is
// not strict. last is true for the last range of the header.
func parseStrictRange(text string, last bool) (kind string, ok bool) {
	parts := strings.Split(text, ";")
	mediaType := strings.Trim(parts[0], " ")
	mainType, subtype, slash := strings.Cut(mediaType, "/")
	plain := slash && isName(mainType, mediaByte) && isName(subtype, mediaByte)
	if !plain && (mediaType != anyMedia || !last) || slices.Contains(upstreamMedia, mediaType) {
		return "", false
	}
	var seen []string
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.Trim(part, " "), "=")
		if name == "q" && last && len(seen) == len(parts)-2 && isFraction(value) {
			// If only the last range has a quality, a quality below 1 does not change the order of the
			// ranges. client-node sends "application/json, */*;q=0.8".
			continue
		}
		if !slices.Contains(rangeParams, name) || slices.Contains(seen, name) || !isName(value, valueByte) {
			return "", false
		}
		if name == "as" {
			kind = strings.Clone(value) // a copy, so that the header does not stay in memory
		}
		seen = append(seen, name)
	}
	return kind, true
}

// isFraction reports whether a quality is greater than 0, less than 1, and has at most three
// decimals.
func isFraction(quality string) bool {
	digits, ok := strings.CutPrefix(quality, "0.")
	return ok && len(digits) <= 3 && strings.Trim(digits, "0123456789") == "" && strings.Trim(digits, "0") != ""
}

func mediaByte(b byte) bool { return groupByte(b) || b == '+' }

func valueByte(b byte) bool { return groupByte(b) || b >= 'A' && b <= 'Z' }

// AcceptsGzip reports whether the client accepts a gzipped body.
func AcceptsGzip(h http.Header) bool {
	for _, v := range h.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if strings.TrimSpace(name) == "gzip" && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}
