package servers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/wire"
)

const podsPath = "/api/v1/pods"

// client sends requests over separate connections. It is safe for concurrent use.
type client struct {
	base      *url.URL
	http      http.Client
	transport *http.Transport
}

// newClient returns a client that uses the credentials of cfg. The caller must call close.
func newClient(cfg *rest.Config) (*client, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	c := &client{base: base}
	// Compressed answers are not decompressed, so that their size on the wire can be counted.
	c.transport = &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: maxWriters}
	if c.http.Transport, err = rest.HTTPWrappersForConfig(cfg, c.transport); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// request is a request to a server, and the form in which its answer is wanted.
type request struct {
	method string // empty: GET
	path   string
	query  string
	accept string // empty: protobuf
	gzip   bool
	send   io.Reader
	as     string // the content type of send
}

// answerError is the error for an answer whose status is not a success.
type answerError struct {
	what string
	code int
	said string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.what, e.code, http.StatusText(e.code), e.said)
}

// do sends a request and returns the answer, whose body the caller must close. If the status of the
// answer is not a success, the error is an *answerError.
func (c *client) do(ctx context.Context, q request) (*http.Response, error) {
	q.method = cmp.Or(q.method, http.MethodGet)
	q.accept = cmp.Or(q.accept, wire.ContentTypeProtobuf)
	at := c.base.JoinPath(q.path)
	at.RawQuery = q.query
	r, err := http.NewRequestWithContext(ctx, q.method, at.String(), q.send)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", q.accept)
	if q.gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	if q.as != "" {
		r.Header.Set("Content-Type", q.as)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // ignore the error
		return nil, &answerError{what: q.method + " " + q.path, code: answer.StatusCode, said: printable(said)}
	}
	return answer, nil
}

// printable returns b as text, with a space for each byte that is not printable ASCII, because an
// answer may be protobuf. It modifies b.
func printable(b []byte) string {
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = ' '
		}
	}
	return string(b)
}

// discard sends a request, reads the answer and returns the answer's size in bytes. It returns an
// error if the answer is compressed and q.gzip is not set, or if the answer is not compressed and
// q.gzip is set.
func (c *client) discard(ctx context.Context, q request) (int64, error) {
	answer, err := c.do(ctx, q)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if encoded := answer.Header.Get("Content-Encoding"); q.gzip != (encoded == "gzip") {
		return 0, fmt.Errorf("GET %s: asked for gzip: %t, got the encoding %q", q.path, q.gzip, encoded)
	}
	return io.Copy(io.Discard, answer.Body)
}

// watch opens a WATCH of pods in protobuf. The caller must close the returned closer.
func (c *client) watch(ctx context.Context, query string) (*wire.WatchReader, io.Closer, error) {
	answer, err := c.do(ctx, request{path: podsPath, query: query})
	if err != nil {
		return nil, nil, err
	}
	return wire.NewWatchReader(answer.Body, wire.Protobuf, wire.Limits{}), answer.Body, nil
}

// The queries of WATCHes. watchWithState asks for all objects and then for their changes. watchFrom
// asks for the changes after a resourceVersion.
const watchWithState = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0&allowWatchBookmarks=true"

func watchFrom(resourceVersion string) string {
	return "watch=true&allowWatchBookmarks=true&resourceVersion=" + url.QueryEscape(resourceVersion)
}
