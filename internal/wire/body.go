package wire

import (
	"fmt"
	"io"
	"strings"
)

// NewBody returns a reader that undoes a Content-Encoding. For "" and identity it returns r itself.
// For gzip it returns a reader of any number of members, which returns the bytes of one member
// without waiting for the next. Any other encoding is an error that wraps ErrUnknownEncoding.
// NewBody reads nothing.
func NewBody(r io.Reader, contentEncoding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return newGzipReader(r), nil
	}
	return nil, fmt.Errorf("content encoding %q: %w", contentEncoding, ErrUnknownEncoding)
}
