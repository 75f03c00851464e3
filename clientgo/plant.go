package clientgo

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/weirproject/weir/internal/wire"
)

// plant makes the answer that the caller gets in place of the captured one: an empty list of a kind, or a watch that has
// ended. It is in the encoding of the captured one: that is what the caller asked for, and may be all that it can read.
func plant(req *http.Request, resp *http.Response, v verb, kind wire.TypeMeta, enc wire.Encoding) (*http.Response, error) {
	planted := *resp
	planted.Request = req
	planted.Header = resp.Header.Clone()
	planted.Header.Del("Content-Encoding")
	planted.Header.Del("Content-Length")
	planted.Uncompressed = false
	var body bytes.Buffer
	if v == list {
		if err := wire.NewListWriter(&body, enc, kind, wire.ListMeta{}, 0).Close(); err != nil {
			return nil, err
		}
	}
	planted.ContentLength = int64(body.Len())
	planted.Body = io.NopCloser(&body)
	return &planted, nil
}

// readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// ownedBody is a body whose request ends with it.
type ownedBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *ownedBody) Close() error {
	b.cancel(net.ErrClosed)
	return b.ReadCloser.Close()
}
