package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client is a program's connection to the cluster: an http.RoundTripper. It is safe for concurrent
// use.
type Client struct {
	Name  string
	Index int

	cluster   *Cluster
	perSecond int // more requests in a second are too many

	// Guarded by the cluster's lock.
	server   *Server
	backends []Backend // in place of servers; may be empty
	backend  int
	requests int
	lists    int           // begun, initial events included
	second   time.Duration // when the second began in which inSecond requests came
	inSecond int
	hammers  bool
	last     time.Duration // when the last request came
}

// A client that makes more requests than these hammers. From then on its requests get no answers,
// or virtual time would stand still. The bound per second is for each reflector, since each keeps a
// pace of its own.
const (
	tooManyPerSecond = 30
	tooMany          = 20000
)

// Client makes a client with a number of reflectors. It is routed to the first server.
func (c *Cluster) Client(name string, reflectors int) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := &Client{Name: name, Index: len(c.clients), cluster: c, server: c.servers[0], perSecond: tooManyPerSecond * reflectors}
	c.clients = append(c.clients, cl)
	return cl
}

// Route sends the client's requests to a server from now on or, if the client is behind backends,
// to a backend. A number that is too large wraps around. Answers under way stay where they are.
func (cl *Client) Route(server int) {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	if n := len(cl.backends); n > 0 {
		cl.backend = server % n
		return
	}
	cl.server = cl.cluster.servers[server%len(cl.cluster.servers)]
}

// Lists returns how many LISTs the client has begun, WATCHes with initial events included.
func (cl *Client) Lists() int {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	return cl.lists
}

// Hammers reports whether the client made requests without a pause.
func (cl *Client) Hammers() bool {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	return cl.hammers
}

var (
	errRefused = errors.New("connection refused")
	errBroken  = errors.New("connection reset by peer")
)

// RoundTrip implements http.RoundTripper. The server or backend that the client is routed to
// answers, as the faults let it. A fault may block the request until its context ends.
func (cl *Client) RoundTrip(hr *http.Request) (*http.Response, error) {
	c, ctx := cl.cluster, hr.Context()
	c.Yield()
	c.mu.Lock()
	s := cl.server
	q, bad := c.Kind.read(hr, s.Old)
	q.protobuf, q.gzip = q.protobuf && !s.Plain, q.gzip && s.Gzip
	q.client = cl
	cl.count(q.ask)
	c.logf("%v: %v", s, q)
	p := c.plan(cl.Index, s, q)
	hang := p.has(Hang) || cl.hammers
	var backend Backend
	if len(cl.backends) > 0 {
		backend = cl.backends[cl.backend]
	}
	c.mu.Unlock()
	if p.has(Refuse) {
		return nil, errRefused
	}
	if hang {
		return nil, await(ctx, nil, 0)
	}
	if err := pause(ctx, p[Delay].D); err != nil {
		return nil, err
	}
	if p.has(Answer) {
		bad = failureOf(p[Answer].N)
	}
	var resp *http.Response
	var err error
	switch {
	case p.has(Page):
		resp = respond(hr, http.StatusOK, "text/html", newBody(ctx, c, []byte("<html><body>Log in, please.</body></html>"), p))
	case bad != nil:
		resp = bad.respond(q, p)
	case backend != nil:
		resp = cl.relay(q, p, backend)
	default:
		resp, err = s.serve(q, p)
	}
	if err == nil {
		err = pause(ctx, p[Slow].D)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// count notes a request. The caller holds the lock.
func (cl *Client) count(ask Ask) {
	now := cl.cluster.Now()
	cl.requests++
	if ask&(AskLists|AskInitial) != 0 && ask&(AskMore|AskProbe) == 0 {
		cl.lists++
	}
	cl.last = now
	if now-cl.second >= time.Second {
		cl.second, cl.inSecond = now, 0
	}
	if cl.inSecond++; cl.inSecond > cl.perSecond || cl.requests > tooMany {
		cl.hammers = true
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return await(ctx, nil, d)
}

func respond(r *http.Request, code int, contentType string, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: body, ContentLength: -1, Request: r,
	}
}

func (f *failure) respond(q *request, p *plan) *http.Response {
	resp := respond(q.Request, int(f.Code), "application/json", newBody(q.Context(), q.client.cluster, f.json(), p))
	if d := f.Details; d != nil && d.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return resp
}

func (s *Server) String() string { return fmt.Sprintf("server %d", s.Index) }

// String says whose request it is, and for what, without what most requests have in common.
func (r *request) String() string {
	var b strings.Builder
	if r.client != nil {
		b.WriteString(r.client.Name + "'s ")
	}
	b.WriteString(r.ask.String())
	if r.ask == AskOther {
		b.WriteString(" " + r.URL.Path)
	}
	if r.namespace != "" {
		b.WriteString(" in " + r.namespace)
	}
	for _, p := range []struct{ param, text string }{
		{"labelSelector", "of"}, {"fieldSelector", "of"}, {"resourceVersion", "rv"}, {"resourceVersionMatch", "match"}, {"limit", "limit"}, {"continue", "continue"},
	} {
		if v := r.query.Get(p.param); v != "" {
			b.WriteString(" " + p.text + " " + v)
		}
	}
	return b.String()
}

// serve answers a request as the contract says.
func (s *Server) serve(q *request, p *plan) (*http.Response, error) {
	c := s.cluster
	switch q.ask {
	case AskVersion:
		major, minor := s.version()
		body := fmt.Sprintf(`{"major":"%s","minor":"%s","gitVersion":"v%s.%s.0"}`, major, minor, major, minor)
		return respond(q.Request, http.StatusOK, "application/json", newBody(q.Context(), c, []byte(body), p)), nil
	case AskOther:
		return failureOf(http.StatusNotFound).respond(q, p), nil
	case AskWatch, AskInitial:
		return s.serveWatch(q, p), nil
	}
	return s.serveList(q, p)
}

func contentType(q *request, watch bool) string {
	t := "application/json"
	if q.protobuf {
		t = "application/vnd.kubernetes.protobuf"
	}
	if q.partial {
		t += ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	if watch {
		t += ";stream=watch"
	}
	return t
}

func (s *Server) serveList(q *request, p *plan) (*http.Response, error) {
	c := s.cluster
	c.mu.Lock()
	m, bad := s.moment(q)
	deadline := c.Now() + freshness
	for {
		var l listed
		wait := false
		if bad == nil {
			l, bad, wait = s.list(q, m, c.Now() < deadline)
		}
		if wait {
			if err := c.wait(q.Context(), s.until(deadline)); err != nil {
				c.mu.Unlock()
				return nil, err
			}
			continue
		}
		c.mu.Unlock()
		if bad != nil {
			return bad.respond(q, p), nil
		}
		if q.gzip {
			l.body = compress(l.body)
		}
		b := newBody(q.Context(), c, l.body, p)
		if l.last {
			b.whole = func() { c.complete(q, l.era, l.schema, l.rev) }
		}
		resp := respond(q.Request, http.StatusOK, contentType(q, false), b)
		if q.gzip {
			resp.Header.Set("Content-Encoding", "gzip")
		}
		return resp, nil
	}
}

// until returns for how long a server that waits for its cache has nothing to look at: until the
// cache sees more, or the deadline.
func (s *Server) until(deadline time.Duration) time.Duration {
	d := deadline - s.cluster.Now()
	if next, ok := s.next(); ok {
		d = min(d, next)
	}
	return max(d, 0)
}

// wait releases the lock until something has changed, d has passed or ctx has ended. In the last
// case it returns an error. It takes the lock again before it returns.
func (c *Cluster) wait(ctx context.Context, d time.Duration) error {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	return await(ctx, changed, max(d, 1))
}

func (s *Server) serveWatch(q *request, p *plan) *http.Response {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	w, bad := s.watch(q, p)
	if bad != nil {
		return bad.respond(q, p)
	}
	c.watches = append(c.watches, w)
	q.gzip = q.gzip && w.state && w.end // kube-apiserver compresses no other watches
	b := newBody(q.Context(), c, nil, p)
	b.source, b.ended = w, c.watched(q)
	resp := respond(q.Request, http.StatusOK, contentType(q, true), b)
	if q.gzip {
		resp.Header.Set("Content-Encoding", "gzip")
	}
	return resp
}

// CloseIdleConnections does nothing: there are none.
func (cl *Client) CloseIdleConnections() {}
