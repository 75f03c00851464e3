package wire

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strconv"
)

// Encoding is an encoding of objects. The zero value is none.
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

// ErrUnknownEncoding is wrapped by the errors of EncodingOf and NewBody for a content type or
// content encoding that this package cannot read.
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

// EncodingAt returns the encoding of a list or an object by its first bytes, of which four are
// enough. The error wraps ErrUnknownEncoding if they are of neither encoding.
func EncodingAt(start []byte) (Encoding, error) {
	if bytes.HasPrefix(start, []byte(protoMagic)) {
		return Protobuf, nil
	}
	if text := bytes.TrimLeft(start, " \t\r\n"); len(start) > 0 && (len(text) == 0 || text[0] == '{') {
		return JSON, nil
	}
	return 0, fmt.Errorf("no content type, and a body that starts with %.4q: %w", start, ErrUnknownEncoding)
}
