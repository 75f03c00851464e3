package reflector

import (
	"io"
	"net/http"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// contentType is the Content-Type of a LIST's answer.
func contentType(enc wire.Encoding) string {
	if enc == wire.JSON {
		return wire.ContentTypeJSON
	}
	return wire.ContentTypeProtobuf
}

// watchContentType is the Content-Type of a WATCH's answer.
func watchContentType(enc wire.Encoding) string {
	if enc == wire.JSON {
		return wire.ContentTypeJSON
	}
	return wire.ContentTypeProtobufWatch
}

// listOf is the List of a body.
func listOf(body io.ReadCloser, enc wire.Encoding) (source.List, error) {
	return source.NewList(answerOf(body, contentType(enc)), source.Options{})
}

// watchOf is the Watch of a body.
func watchOf(body io.ReadCloser, enc wire.Encoding) (source.Watch, error) {
	return source.NewWatch(answerOf(body, watchContentType(enc)), 0, source.Options{})
}

func answerOf(body io.ReadCloser, contentType string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: body}
}
