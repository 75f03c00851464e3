package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Client is a program that sends requests to the cluster. It implements http.RoundTripper and is
// safe for concurrent use.
type Client struct {
	Name  string
	Index int

	cluster   *Cluster
	perSecond int // the maximum number of requests in a second; more are hammering

	// cluster.mu guards the fields below.
	server   *Server
	backends []Backend // if not empty, these handle the requests instead of servers
	backend  int
	requests int
	lists    int           // the number of LISTs and of WATCHes with initial events
	second   time.Duration // the start of the second whose requests inSecond counts
	inSecond int
	hammers  bool
}

// These limit the requests of a client. If a client exceeds one of them, it hammers: its further
// requests get no response, because virtual time would not advance while it sends requests without
// a pause. The limit per second is for each reflector, because each has its own rate.
const (
	tooManyPerSecond = 30
	tooMany          = 20000
)

// Client creates a client with the given number of reflectors. Its requests go to the first server,
// until Route changes that.
func (c *Cluster) Client(name string, reflectors int) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := &Client{Name: name, Index: len(c.clients), cluster: c, server: c.servers[0], perSecond: tooManyPerSecond * reflectors}
	c.clients = append(c.clients, cl)
	return cl
}

// Route sends the client's later requests to another server or, if the client has backends, to
// another backend. The index is taken modulo their number. Responses in progress continue.
func (cl *Client) Route(server int) {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	if n := len(cl.backends); n > 0 {
		cl.backend = server % n
		return
	}
	cl.server = cl.cluster.servers[server%len(cl.cluster.servers)]
}

// Lists returns the number of LISTs that the client has sent, including WATCHes with initial
// events.
func (cl *Client) Lists() int {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	return cl.lists
}

// Hammers reports whether the client has exceeded a limit for its number of requests.
func (cl *Client) Hammers() bool {
	cl.cluster.mu.Lock()
	defer cl.cluster.mu.Unlock()
	return cl.hammers
}

var (
	errRefused = errors.New("connection refused")
	errBroken  = errors.New("connection reset by peer")
)

// RoundTrip implements http.RoundTripper. The server or backend to which Route directs the client
// handles the request, unless a fault prevents that. A fault may block the request until its
// context ends.
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
	q.plan = c.plan(cl.Index, s, q)
	p := q.plan
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
		resp = q.respond(http.StatusOK, "text/html", q.body([]byte("<html><body>Log in, please.</body></html>")))
	case bad != nil:
		resp = q.fail(bad)
	case backend != nil:
		resp = cl.relay(q, backend)
	default:
		resp, err = s.serve(q)
	}
	if err == nil {
		err = pause(ctx, p[Slow].D)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// count counts a request, and sets hammers if a limit is exceeded. The caller must hold cluster.mu.
func (cl *Client) count(ask Ask) {
	now := cl.cluster.Now()
	cl.requests++
	if ask&(AskLists|AskInitial) != 0 && ask&(AskMore|AskProbe) == 0 {
		cl.lists++
	}
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

func (r *request) respond(code int, contentType string, b *body) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}}, Body: b, ContentLength: -1, Request: r.Request,
	}
}

func (r *request) fail(f *failure) *http.Response {
	resp := r.respond(int(f.Code), "application/json", r.body(f.json()))
	if d := f.Details; d != nil && d.RetryAfterSeconds > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return resp
}

// objects returns a response whose body b contains objects, with suffix at the end of the
// Content-Type.
func (r *request) objects(b *body, suffix string) *http.Response {
	t := "application/json"
	if r.protobuf {
		t = "application/vnd.kubernetes.protobuf"
	}
	if r.partial {
		t += ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	resp := r.respond(http.StatusOK, t+suffix, b)
	if r.gzip {
		resp.Header.Set("Content-Encoding", "gzip")
	}
	return resp
}

func (s *Server) String() string { return fmt.Sprintf("server %d", s.Index) }

// String returns the client, the kind of the request, and its most important parameters.
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

// serve handles a request as the contract of LIST and WATCH requires.
func (s *Server) serve(q *request) (*http.Response, error) {
	switch q.ask {
	case AskVersion:
		major, minor := s.version()
		body := fmt.Sprintf(`{"major":"%s","minor":"%s","gitVersion":"v%s.%s.0"}`, major, minor, major, minor)
		return q.respond(http.StatusOK, "application/json", q.body([]byte(body))), nil
	case AskOther:
		return q.fail(failureOf(http.StatusNotFound)), nil
	case AskWatch, AskInitial:
		return s.serveWatch(q), nil
	}
	return s.serveList(q)
}

func (s *Server) serveList(q *request) (*http.Response, error) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	m, bad := s.moment(q)
	var l listed
	deadline := c.Now() + freshness
	for wait := true; wait && bad == nil; {
		if l, bad, wait = s.list(q, m, c.Now() < deadline); wait {
			if err := c.wait(q.Context(), s.until(deadline)); err != nil {
				return nil, err
			}
		}
	}
	if bad != nil {
		return q.fail(bad), nil
	}
	if q.gzip {
		l.body = compress(l.body)
	}
	b := q.body(l.body)
	if l.last {
		b.whole = func() { c.complete(q, l.era, l.schema, l.rev) }
	}
	return q.objects(b, ""), nil
}

// until returns the duration from now to the given time (at). If the server's cache receives the
// next commit sooner, until returns the time until that commit.
func (s *Server) until(at time.Duration) time.Duration {
	d := at - s.cluster.Now()
	if next, ok := s.next(); ok {
		d = min(d, next)
	}
	return max(d, 0)
}

// wait releases c.mu until something has changed, d has passed or ctx has ended, and then locks it
// again. It returns an error if ctx has ended.
func (c *Cluster) wait(ctx context.Context, d time.Duration) error {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	return await(ctx, changed, max(d, 1))
}

func (s *Server) serveWatch(q *request) *http.Response {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	w, bad := s.watch(q)
	if bad != nil {
		return q.fail(bad)
	}
	c.watches = append(c.watches, w)
	q.gzip = q.gzip && w.state && w.end // kube-apiserver compresses no other WATCHes
	b := q.body(nil)
	b.source, b.ended = w, c.watched(q)
	return q.objects(b, ";stream=watch")
}

// CloseIdleConnections is a no-op, because clients have no connections.
func (cl *Client) CloseIdleConnections() {}
