package wire

import (
	"fmt"
	"io"
	"strings"
)

// NewBody undoes a Content-Encoding: "" and identity give r itself, gzip a reader that takes any
// number of members one after another and returns what a member holds without waiting for the next.
// Anything else is ErrUnknownEncoding. It reads nothing yet.
func NewBody(r io.Reader, contentEncoding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return newGzipReader(r), nil
	}
	return nil, fmt.Errorf("content encoding %q: %w", contentEncoding, ErrUnknownEncoding)
}
