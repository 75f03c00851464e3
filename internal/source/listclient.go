package source

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// listTransport says by which HTTP client LISTs go. Its own client uses HTTP/1.1, on connections
// apart from those of WATCHes. HTTP/2 cuts a body into frames of 16 KB, passes each from one
// goroutine to another, and answers it with a window update. For a LIST of 50,000 pods that costs
// an eighth of the client's CPU and a quarter of the time. WATCHes are many, long and mostly
// silent, so they share one HTTP/2 connection.
//
// A server, or a front end, may speak HTTP/2 alone. How it treats other clients differs: it ends
// the TLS handshake or the connection, refuses (426, 505), or never answers. So LISTs go by the
// WATCHes' client once maxUnanswered of them in a row got no answer, and stay there if that one
// gets an answer.
type listTransport struct {
	own *http.Client // nil: LISTs go by the WATCHes' client
	// unanswered counts LISTs by own in a row that got no answer. From maxUnanswered on they go by
	// the WATCHes' client.
	unanswered atomic.Int32
}

// maxUnanswered is how many LISTs in a row by HTTP/1.1 may get no answer. If none ever got one, one
// is enough.
const maxUnanswered = 3

// newListTransport returns a listTransport without a client of its own where that makes no
// difference or is not allowed: without TLS, with a transport of the caller's, or where the caller
// has named protocols.
func newListTransport(cfg *rest.Config, base *url.URL) (*listTransport, error) {
	if base.Scheme != "https" || cfg.Transport != nil || len(cfg.NextProtos) > 0 {
		return &listTransport{}, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	own, err := HTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	l := &listTransport{own: own}
	l.unanswered.Store(maxUnanswered - 1)
	return l, nil
}

// doList makes the request of a LIST, and blocks until its answer begins. c.last holds if c goes by
// HTTP/1.1.
func (s *REST) doList(ctx context.Context, c call) (*http.Response, *stream, error) {
	l := s.lists
	if l.own != nil && l.unanswered.Load() < maxUnanswered {
		c.client = l.own
		resp, stream, err := s.do(ctx, c)
		switch {
		case err == nil && refusesProtocol(resp.StatusCode):
			stream.Close()
			l.unanswered.Store(maxUnanswered)
		case err == nil:
			l.unanswered.Store(0)
			return resp, stream, nil
		case ctx.Err() != nil || notConnected(err):
			return nil, nil, err
		case l.unanswered.Add(1) < maxUnanswered || errors.Is(err, ErrStalled):
			return nil, nil, err // the other client may take as long: the next LIST tries it
		}
	}
	c.client, c.last = s.client, false
	resp, stream, err := s.do(ctx, c)
	if err != nil && l.own != nil {
		l.unanswered.Store(maxUnanswered - 1)
	}
	return resp, stream, err
}

// refusesProtocol reports whether a status code says that the request came by the wrong version of
// HTTP.
func refusesProtocol(code int) bool {
	return code == http.StatusUpgradeRequired || code == http.StatusHTTPVersionNotSupported
}

// notConnected reports whether err says that there was no connection, whatever the protocol.
func notConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
