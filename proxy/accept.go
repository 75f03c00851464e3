package proxy

import (
	"net/http"
	"slices"
	"strings"
)

const (
	// maxMediaRanges bounds the media ranges of an Accept header that is read here. Of more than
	// these kube-apiserver keeps no order.
	maxMediaRanges = 12
	anyMedia       = "*/*"
)

// supportedAccept reports whether the Accept header is one that kube-apiserver reads as it is read
// here. Any other goes upstream: quotes, which kube-apiserver takes for a part of the value;
// capitals; qualities but that of the last range, and ranges behind a wildcard, which it orders in
// its own way; a second header, which it does not look at; and parameters that are not known here.
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

// supportedRange is supportedAccept for one media range.
func supportedRange(text string, last bool) bool {
	parts := strings.Split(text, ";")
	mediaType := strings.Trim(parts[0], " ")
	kind, of, slash := strings.Cut(mediaType, "/")
	plain := slash && isName(kind, mediaByte) && isName(of, mediaByte)
	if !plain && (mediaType != anyMedia || !last) {
		return false
	}
	var seen []string
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.Trim(part, " "), "=")
		if name == "q" && last && len(seen) == len(parts)-2 && isFraction(value) {
			continue // the last comes last with it as well, as in what client-node asks for by default: "application/json, */*;q=0.8"
		}
		if !slices.Contains([]string{"as", "g", "v", "stream", "charset"}, name) || slices.Contains(seen, name) || !isName(value, valueByte) {
			return false
		}
		seen = append(seen, name)
	}
	return true
}

// isFraction reports whether a quality is between 0 and 1.
func isFraction(quality string) bool {
	digits, ok := strings.CutPrefix(quality, "0.")
	return ok && len(digits) <= 3 && strings.Trim(digits, "0123456789") == "" && strings.Trim(digits, "0") != ""
}

// acceptsKind reports whether whoever asks for another form of the objects asks for the one that
// such an answer has: as says which. Of a list that is asked for as one object, or the reverse,
// kube-apiserver makes nothing, and says so.
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
