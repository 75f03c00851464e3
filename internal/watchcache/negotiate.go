package watchcache

import (
	"cmp"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/internal/wire"
)

// shape says what becomes of an object in an answer.
type shape uint8

const (
	whole shape = iota
	metadataOnly
	table
)

// mediaType is the media type of an answer.
type mediaType struct {
	enc   wire.Encoding
	shape shape
	// version is the version of the meta.k8s.io kinds that metadataOnly and table use: v1 or
	// v1beta1.
	version string
	// list says that metadataOnly was asked for by the kind of a list.
	list bool
}

// negotiate returns the first media range of the Accept header that can accepts: by quality, then
// names before wildcards, then by order. No header and a wildcard mean JSON.
func negotiate(h http.Header, can func(mediaRange) bool) (mediaType, bool) {
	for _, c := range mediaRangesIn(h) {
		if can(c) {
			return c.mediaType, true
		}
	}
	return mediaType{}, false
}

// mediaRangesIn returns the supported media ranges of a request, best first. The result is shared;
// do not modify it.
func mediaRangesIn(h http.Header) []mediaRange {
	header := strings.Join(h.Values("Accept"), ",")
	if cached, ok := acceptCache.Get(header); ok {
		return cached.([]mediaRange)
	}
	choices := parseAccept(header)
	if len(header) <= maxCachedAccept {
		acceptCache.Add(header, choices)
	}
	return choices
}

// acceptCache caches parsed Accept headers. There are few, and every request has one.
var acceptCache = lru.New(maxAcceptCache)

const (
	maxAcceptCache  = 256
	maxCachedAccept = 1 << 10 // bytes of a cached header
)

// mediaRange is one alternative of an Accept header.
type mediaRange struct {
	mediaType
	quality   float64
	wildcards int // 0: it names a media type, 1: application/*, 2: */*
}

// parseAccept returns the supported media ranges of an Accept header, best first.
func parseAccept(header string) []mediaRange {
	if strings.TrimSpace(header) == "" {
		header = "*/*"
	}
	var choices []mediaRange
	for part := range strings.SplitSeq(header, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		mt, ok := parseMediaRange(name, params)
		if !ok {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		if quality > 0 {
			choices = append(choices, mediaRange{mt, quality, strings.Count(name, "*")})
		}
	}
	slices.SortStableFunc(choices, func(a, b mediaRange) int {
		return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(a.wildcards, b.wildcards))
	})
	return choices
}

func parseMediaRange(name string, params map[string]string) (mediaType, bool) {
	var mt mediaType
	switch name {
	case "*/*", "application/*", "application/json":
		mt.enc = wire.JSON
	case "application/vnd.kubernetes.protobuf":
		mt.enc = wire.Protobuf
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
		mt.shape = metadataOnly
	case "PartialObjectMetadataList":
		mt.shape, mt.list = metadataOnly, true
	case "Table":
		mt.shape = table
		if mt.enc != wire.JSON {
			return mt, false
		}
	default:
		return mt, false
	}
	mt.version = params["v"]
	return mt, params["g"] == metav1.GroupName && (mt.version == "v1" || mt.version == "v1beta1")
}

// contentType returns the Content-Type of an object or a list.
func (mt mediaType) contentType() string {
	if mt.enc == wire.Protobuf {
		return wire.ContentTypeProtobuf
	}
	return wire.ContentTypeJSON
}

// watchContentType returns the Content-Type of a stream of watch events.
func (mt mediaType) watchContentType() string {
	if mt.enc == wire.Protobuf {
		return wire.ContentTypeProtobufWatch
	}
	return wire.ContentTypeJSON
}

// acceptsGzip reports whether the client accepts a gzipped body.
func acceptsGzip(h http.Header) bool {
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

// WantsTable reports whether an Accept header names a Table, in whatever spelling.
func WantsTable(h http.Header) bool {
	return slices.ContainsFunc(mediaRangesIn(h), func(c mediaRange) bool { return c.shape == table })
}

// WantsProtobuf reports whether kube-apiserver answers whole objects of a built-in kind in protobuf
// to a client with these headers.
func WantsProtobuf(h http.Header) bool {
	mt, ok := negotiate(h, func(mr mediaRange) bool { return mr.wildcards != 1 })
	return ok && mt.enc == wire.Protobuf && mt.shape == whole
}

// Encoding returns the encoding in which objects of the cache are served to a client with these
// headers, and false if it accepts none.
func (c *Cache) Encoding(h http.Header) (wire.Encoding, bool) {
	mt, ok := negotiate(h, c.canServe)
	return mt.enc, ok
}

// Accepts returns an error if objects of the cache cannot be served in any representation that the
// client accepts. A server checks this before a write.
func (c *Cache) Accepts(r *http.Request) error {
	if _, ok := c.Encoding(r.Header); !ok {
		return errNotAcceptable()
	}
	return nil
}
