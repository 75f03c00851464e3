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

// shape is what becomes of an object on its way out.
type shape uint8

const (
	whole shape = iota
	metadataOnly
	table
)

// accepted is what one answer is written in.
type accepted struct {
	enc   wire.Encoding
	shape shape
	// version of the meta.k8s.io kinds that metadataOnly and table answer with: v1 or v1beta1.
	version string
}

// negotiate picks the first media range of the Accept header that can is true for, by quality, then by order. No header, and a
// wildcard, is JSON.
func negotiate(h http.Header, can func(accepted) bool) (accepted, bool) {
	for _, c := range choicesIn(h) {
		if can(c.accepted) {
			return c.accepted, true
		}
	}
	return accepted{}, false
}

// choicesIn returns the choices of a request's Accept headers, the best first. Nobody may change them.
func choicesIn(h http.Header) []choice {
	header := strings.Join(h.Values("Accept"), ",")
	if known, ok := accepts.Get(header); ok {
		return known.([]choice)
	}
	choices := choicesOf(header)
	if len(header) <= maxAccept {
		accepts.Add(header, choices)
	}
	return choices
}

// accepts remembers what Accept headers say: there are few, and each comes with every request of its clients.
var accepts = lru.New(maxAccepts)

const (
	maxAccepts = 256
	maxAccept  = 1 << 10 // bytes of a header that is remembered
)

// choice is one that a client leaves.
type choice struct {
	accepted
	quality float64
}

// choicesOf are those of an Accept header that are known here at all, the best first.
func choicesOf(header string) []choice {
	if strings.TrimSpace(header) == "" {
		header = "*/*"
	}
	var choices []choice
	for part := range strings.SplitSeq(header, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		a, ok := acceptedBy(mediaType, params)
		if !ok {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		if quality > 0 {
			choices = append(choices, choice{a, quality})
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(b.quality, a.quality) })
	return choices
}

func acceptedBy(mediaType string, params map[string]string) (accepted, bool) {
	var a accepted
	switch mediaType {
	case "*/*", "application/json":
		a.enc = wire.JSON
	case "application/vnd.kubernetes.protobuf":
		a.enc = wire.Protobuf
	default:
		return a, false
	}
	if s := params["stream"]; s != "" && s != "watch" {
		return a, false
	}
	switch params["as"] {
	case "":
		return a, params["g"] == "" && params["v"] == ""
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		a.shape = metadataOnly
	case "Table":
		a.shape = table
		if a.enc != wire.JSON {
			return a, false
		}
	default:
		return a, false
	}
	a.version = params["v"]
	return a, params["g"] == metav1.GroupName && (a.version == "v1" || a.version == "v1beta1")
}

// contentType is the header of a body of one object or list.
func (a accepted) contentType() string {
	if a.enc == wire.Protobuf {
		return wire.ContentTypeProtobuf
	}
	return wire.ContentTypeJSON
}

// watchContentType is the header of a body of watch events.
func (a accepted) watchContentType() string {
	if a.enc == wire.Protobuf {
		return wire.ContentTypeProtobufWatch
	}
	return wire.ContentTypeJSON
}

// acceptsGzip says whether the client takes a gzipped body.
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
