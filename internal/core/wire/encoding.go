package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"

	"github.com/weirproject/weir/internal/core/compress"
)

// Encoding is an encoding of objects. The zero value is no encoding.
type Encoding uint8

const (
	// JSON is application/json.
	JSON Encoding = iota + 1
	// Protobuf is application/vnd.kubernetes.protobuf.
	Protobuf
)

// Media types of bodies, for Accept and Content-Type headers.
const (
	ContentTypeJSON          = "application/json"
	ContentTypeProtobuf      = "application/vnd.kubernetes.protobuf"
	ContentTypeProtobufWatch = "application/vnd.kubernetes.protobuf;stream=watch"
)

// ErrUnknownEncoding is wrapped by errors for what this package cannot read: a content type
// (EncodingOf), a body (EncodingAt) or a content encoding (NewBody).
var ErrUnknownEncoding = errors.New("unknown encoding")

// String returns "json" or "protobuf".
func (e Encoding) String() string {
	switch e {
	case JSON:
		return "json"
	case Protobuf:
		return "protobuf"
	}
	return "encoding(" + strconv.Itoa(int(e)) + ")"
}

// EncodingOf returns the encoding that a Content-Type header names. It ignores parameters (stream,
// as, charset). The error wraps ErrUnknownEncoding.
func EncodingOf(contentType string) (Encoding, error) {
	switch contentType {
	case ContentTypeJSON:
		return JSON, nil
	case ContentTypeProtobuf, ContentTypeProtobufWatch:
		return Protobuf, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return 0, fmt.Errorf("content type %q: %w: %v", contentType, ErrUnknownEncoding, err)
	}
	switch media {
	case ContentTypeJSON:
		return JSON, nil
	case ContentTypeProtobuf:
		return Protobuf, nil
	}
	return 0, fmt.Errorf("content type %q: %w", contentType, ErrUnknownEncoding)
}

// EncodingAt guesses the encoding of a list or an object from its first bytes. Four bytes suffice.
// The error wraps ErrUnknownEncoding if the bytes fit neither encoding.
func EncodingAt(start []byte) (Encoding, error) {
	if bytes.HasPrefix(start, []byte(protoMagic)) {
		return Protobuf, nil
	}
	if text := bytes.TrimLeft(start, " \t\r\n"); len(start) > 0 && (len(text) == 0 || text[0] == '{') {
		return JSON, nil
	}
	return 0, fmt.Errorf("no content type, and a body that starts with %.4q: %w", start, ErrUnknownEncoding)
}

// gzipBuffer is the size of the buffer for compressed data, in bytes.
const gzipBuffer = 32 << 10

// gzipReader reads gzip members one by one. It does not use the multistream mode of compress/gzip,
// which reads the next member's header before it returns the last bytes of the current member. On a
// watch the next member may arrive a minute later.
type gzipReader struct {
	src    *bufio.Reader
	member *compress.GzipReader // nil before the first member
	inside bool                 // within a member
	err    error
}

func newGzipReader(r io.Reader) *gzipReader {
	return &gzipReader{src: bufio.NewReaderSize(r, gzipBuffer)}
}

func (g *gzipReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for g.err == nil {
		if !g.inside {
			g.err = g.open()
			continue
		}
		n, err := g.member.Read(p)
		if err == io.EOF {
			g.inside = false
		} else if err != nil {
			g.err = fmt.Errorf("gzip: %w", err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, g.err
}

// open starts the next member. It returns io.EOF if the body has no more members.
func (g *gzipReader) open() error {
	if _, err := g.src.Peek(1); err != nil {
		return err
	}
	var err error
	if g.member == nil {
		g.member, err = compress.NewGzipReader(g.src)
	} else {
		err = g.member.Reset(g.src)
	}
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("gzip: %w", err)
	}
	g.member.Multistream(false)
	g.inside = true
	return nil
}

// NewBody returns a reader that decodes a Content-Encoding. For "" and identity it returns r. For
// gzip, r may consist of any number of gzip members. The returned reader returns all bytes of a
// member before it waits for the next member. The error for any other encoding wraps
// ErrUnknownEncoding. NewBody does not read from r.
func NewBody(r io.Reader, contentEncoding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		return newGzipReader(r), nil
	}
	return nil, fmt.Errorf("content encoding %q: %w", contentEncoding, ErrUnknownEncoding)
}
