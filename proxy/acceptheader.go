package proxy

import (
	"net/http"
	"slices"
	"strings"
)

// supportedAccept reports whether the proxy reads the Accept header as kube-apiserver does.
// Requests with any other go upstream. Those have quotes, which kube-apiserver takes for a part of
// the value; capitals; a quality on any range but the last; ranges after a wildcard; a second
// header, which kube-apiserver ignores; unknown parameters; or media types that only kube-apiserver
// serves.
func supportedAccept(h http.Header) bool {
	values := h.Values("Accept")
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return true
	}
	if len(values) > 1 || strings.Count(values[0], ",") >= maxMediaRanges {
		return false
	}
	ranges := strings.Split(values[0], ",")
	for i, text := range ranges {
		if !supportedRange(text, i == len(ranges)-1) {
			return false
		}
	}
	return true
}

const (
	// maxMediaRanges bounds the media ranges of a supported Accept header. kube-apiserver does not
	// keep the order of more.
	maxMediaRanges = 12
	anyMedia       = "*/*"
)

// upstreamMedia are the media types that kube-apiserver serves and the proxy does not.
var upstreamMedia = []string{"application/yaml", "application/cbor"}

// supportedRange reports whether the proxy reads one media range of an Accept header as
// kube-apiserver does. last says that no other range follows.
func supportedRange(text string, last bool) bool {
	parts := strings.Split(text, ";")
	mediaType := strings.Trim(parts[0], " ")
	mainType, subtype, slash := strings.Cut(mediaType, "/")
	plain := slash && isName(mainType, mediaByte) && isName(subtype, mediaByte)
	if !plain && (mediaType != anyMedia || !last) || slices.Contains(upstreamMedia, mediaType) {
		return false
	}
	var seen []string
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.Trim(part, " "), "=")
		if name == "q" && last && len(seen) == len(parts)-2 && isFraction(value) {
			// The last range comes last with a quality too: client-node sends "application/json, */*;q=0.8".
			continue
		}
		if !slices.Contains([]string{"as", "g", "v", "stream", "charset"}, name) || slices.Contains(seen, name) || !isName(value, valueByte) {
			return false
		}
		seen = append(seen, name)
	}
	return true
}

// isFraction reports whether a quality is greater than 0 and less than 1.
func isFraction(quality string) bool {
	digits, ok := strings.CutPrefix(quality, "0.")
	return ok && len(digits) <= 3 && strings.Trim(digits, "0123456789") == "" && strings.Trim(digits, "0") != ""
}

// acceptsKind reports whether the Accept header asks for the kind as, or for no other kind.
// kube-apiserver rejects a request for a list as one object, and the reverse.
func acceptsKind(h http.Header, as string) bool {
	for text := range strings.SplitSeq(h.Get("Accept"), ",") {
		for _, part := range strings.Split(text, ";")[1:] {
			name, value, _ := strings.Cut(strings.Trim(part, " "), "=")
			if name == "as" && value != as {
				return false
			}
		}
	}
	return true
}

func mediaByte(b byte) bool { return groupByte(b) || b == '+' }

func valueByte(b byte) bool { return groupByte(b) || b >= 'A' && b <= 'Z' }
