package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/wire"
)

// Options configure a Source. The zero value has defaults that suit most callers.
type Options struct {
	// IdleTimeout is how long a LIST may receive no byte before it fails with ErrStalled. Only the
	// time that Next spends waiting for the server counts. 0 means 60 s; a negative value means no
	// limit.
	IdleTimeout time.Duration
	// HeaderTimeout is how long the server may take to start a response. 0 means the rest.Config's
	// Timeout, or 75 s if the Timeout is also 0. 75 s is longer than kube-apiserver's own limit of 60
	// s, so the caller gets kube-apiserver's more specific error first.
	HeaderTimeout time.Duration
	// Stats receives the counts of requests and bytes. It may be nil.
	Stats *Stats
	// Limits bounds the size of an object. The zero value means wire's defaults.
	Limits wire.Limits
}

func (o Options) idleTimeout() time.Duration {
	if o.IdleTimeout == 0 {
		return 60 * time.Second
	}
	return max(o.IdleTimeout, 0)
}

// stats returns o.Stats, or new Stats if o.Stats is nil.
func (o Options) stats() *Stats {
	if o.Stats == nil {
		return &Stats{}
	}
	return o.Stats
}

// REST is the Source for a rest.Config. It is safe for concurrent use.
type REST struct {
	client   *http.Client
	lists    *listTransport // shared with the Sources that Of returns
	base     *url.URL
	resource Resource
	opts     Options
	// uncompressed is the rest.Config's DisableCompression. If it is true, no request asks for
	// gzip.
	uncompressed bool
	warnings     warningHandler

	mu           sync.Mutex
	versionKnown bool
	major, minor int
}

var _ Source = (*REST)(nil)

// New returns the Source of one resource on cfg's server. It copies cfg and uses its credentials,
// TLS, proxy, UserAgent, Wrap, Dial and warning handlers. It does not use QPS and RateLimiter: a
// Source sends few requests, and its caller limits their rate. cfg.Timeout limits the time until a
// response starts, not the time to read it. Sources of equal configs share connections; see
// HTTPClient. LISTs over TLS use HTTP/1.1 on separate connections, with two exceptions: the server
// does not support HTTP/1.1, or cfg has a Transport or NextProtos. Then LISTs use the same client
// as WATCHes.
//
// New sends no request. The error wraps ErrResource, or describes a mistake in cfg.
func New(cfg *rest.Config, r Resource, opts Options) (*REST, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	cfg = CopyConfig(cfg)
	if opts.HeaderTimeout == 0 {
		if opts.HeaderTimeout = cfg.Timeout; opts.HeaderTimeout <= 0 {
			opts.HeaderTimeout = 75 * time.Second
		}
	}
	opts.Stats = opts.stats()
	cfg.Timeout = 0 // it would also limit the stream
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
	// required by client-go; New uses only the scheme, host and path prefix of the URL
	cfg.GroupVersion = &schema.GroupVersion{}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("server address %q: %w", cfg.Host, err)
	}
	if !strings.HasPrefix(base.Path, "/") {
		base.Path = "/" + base.Path
	}
	client, err := HTTPClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", base.Host, err)
	}
	s := &REST{client: client, base: base, resource: r, opts: opts, uncompressed: cfg.DisableCompression}
	s.warnings = warningHandler{cfg.WarningHandler, cfg.WarningHandlerWithContext}
	if s.lists, err = newListTransport(cfg, base); err != nil {
		return nil, fmt.Errorf("client for %s: %w", base.Host, err)
	}
	return s, nil
}

// Of returns the Source of another resource on the same server. Both Sources use the same
// connections. The error wraps ErrResource.
func (s *REST) Of(r Resource) (*REST, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	return &REST{client: s.client, lists: s.lists, base: s.base, resource: r, opts: s.opts, uncompressed: s.uncompressed, warnings: s.warnings}, nil
}

// Type returns the apiVersion of the objects and the name of their resource. The kind is empty,
// because the resource's name does not contain it.
func (s *REST) Type() (t wire.TypeMeta, resource string) {
	gvr := s.resource.GVR
	return wire.TypeMeta{APIVersion: gvr.GroupVersion().String()}, gvr.Resource
}

// List opens a LIST; see Source.
func (s *REST) List(ctx context.Context, o metav1.ListOptions) (List, error) {
	l, err := s.list(ctx, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (s *REST) list(ctx context.Context, o metav1.ListOptions) (*listBody, error) {
	s.opts.Stats.Lists.Add(1)
	c := call{method: "LIST", path: s.resource.Path(), query: query(&o), accept: s.resource.Accept(false), long: true}
	c.last = o.Limit == 0 // after a page, the next page is requested on the same connection
	resp, stream, err := s.doList(ctx, c)
	if err != nil {
		return nil, err
	}
	return newList(stream, resp, s.opts)
}

// Watch opens a WATCH; see Source.
func (s *REST) Watch(ctx context.Context, o metav1.ListOptions) (Watch, error) {
	s.opts.Stats.Watches.Add(1)
	o.Watch = true
	resp, stream, err := s.do(ctx, call{
		client: s.client, method: "WATCH", path: s.resource.Path(), query: query(&o), accept: s.resource.Accept(true), long: o.SendInitialEvents != nil,
	})
	if err != nil {
		return nil, err
	}
	return newWatch(stream, resp, TimeoutOf(o), s.opts)
}

// ServerVersion returns the server's version. It requests /version, and caches a successful
// response.
func (s *REST) ServerVersion(ctx context.Context) (major, minor int, err error) {
	s.mu.Lock()
	major, minor, known := s.major, s.minor, s.versionKnown
	s.mu.Unlock()
	if known {
		return major, minor, nil
	}
	resp, stream, err := s.do(ctx, call{client: s.client, method: "GET", path: "/version", accept: wire.ContentTypeJSON})
	if err != nil {
		return 0, 0, err
	}
	defer stream.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, 0, statusError("GET", stream.path, resp, stream)
	}
	body, err := io.ReadAll(io.LimitReader(stream, maxErrorBody))
	if err != nil {
		return 0, 0, err
	}
	if major, minor, err = parseVersion(body); err != nil {
		return 0, 0, fmt.Errorf("GET %s: %w", stream.path, &wire.SyntaxError{What: err.Error(), Err: wire.ErrMalformed})
	}
	s.mu.Lock()
	s.major, s.minor, s.versionKnown = major, minor, true
	s.mu.Unlock()
	return major, minor, nil
}

// parseVersion parses a version with fields such as "1" and "33+". Some vendors add the plus.
func parseVersion(body []byte) (major, minor int, err error) {
	var v struct{ Major, Minor string }
	if err := json.Unmarshal(body, &v); err != nil {
		return 0, 0, fmt.Errorf("server version: %w", err)
	}
	digits := v.Minor
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	major, err1 := strconv.Atoi(v.Major)
	minor, err2 := strconv.Atoi(digits)
	if err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("server version %q.%q is not a number", v.Major, v.Minor)
	}
	return major, minor, nil
}

// query returns the query of a request with the parameters o.
func query(o *metav1.ListOptions) url.Values {
	q, _ := queryparams.Convert(o) // cannot fail: o is a pointer to a struct
	return q
}

type call struct {
	client *http.Client
	method string // for errors; the HTTP method is GET
	path   string
	query  url.Values
	accept string
	long   bool // the body is long, so the request asks for gzip
	last   bool // no other request follows on the connection
}

// do sends a request and blocks until the response starts. The stream is the body of the response;
// closing the stream ends the request.
func (s *REST) do(ctx context.Context, c call) (*http.Response, *stream, error) {
	s.opts.Stats.Requests.Add(1)
	u := s.base.JoinPath(c.path)
	u.RawQuery = c.query.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(err)
		return nil, nil, &RequestError{c.method, u.Path, err}
	}
	req.Close = c.last
	req.Header.Set("Accept", c.accept)
	// Without this header, net/http would ask for gzip and decompress the response.
	req.Header.Set("Accept-Encoding", "identity")
	if c.long && !s.uncompressed {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	late := time.AfterFunc(s.opts.HeaderTimeout, func() { cancel(ErrStalled) })
	resp, err := c.client.Do(req)
	late.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		} else if e, ok := err.(*url.Error); ok {
			err = e.Err // the text of e would repeat the URL with its query
		}
		cancel(err)
		return nil, nil, &RequestError{c.method, u.Path, err}
	}
	s.warnings.handle(ctx, s.base, resp.Header)
	return resp, newStream(c.method, resp, cancel, s.opts), nil
}

// CloseIdleConnections closes the connections that no request uses. Other Sources may share these
// connections; they open new ones when they need them.
func (s *REST) CloseIdleConnections() {
	utilnet.CloseIdleConnectionsFor(s.client.Transport)
	if s.lists.own != nil {
		utilnet.CloseIdleConnectionsFor(s.lists.own.Transport)
	}
}

// readVersion returns the resourceVersion of a list and closes the list. It skips the items in
// front of the resourceVersion. Of the rest of the list it reads only a part if the rest is long;
// see readRest.
func readVersion(l *listBody) (string, error) {
	defer l.Close()
	for {
		_, err := l.Next()
		if rv := l.Meta().ResourceVersion; rv != "" || errors.Is(err, io.EOF) {
			l.stream.readRest()
			return rv, nil
		}
		if _, ofItem := errors.AsType[*wire.ItemError](err); err != nil && !ofItem {
			return "", err
		}
	}
}

// NewestVersion returns the server's newest resourceVersion; see Source.
func (s *REST) NewestVersion(ctx context.Context, o metav1.ListOptions) (string, error) {
	o.Limit = 1
	l, err := s.list(ctx, o)
	if err != nil {
		return "", err
	}
	return readVersion(l)
}

// Stats counts the requests and bytes of a Source. Several Sources may share one Stats. The zero
// value is ready for use. All fields may be read at any time.
type Stats struct {
	Requests  atomic.Int64 // HTTP requests, including those for the server's version
	Lists     atomic.Int64 // LIST requests, one per page; also counted in Requests
	Watches   atomic.Int64 // WATCH requests; also counted in Requests
	WireBytes atomic.Int64 // bytes of bodies as received, before decompression
	BodyBytes atomic.Int64 // bytes of bodies after decompression
}

// counter is a reader that adds the number of bytes that it reads to sum.
type counter struct {
	r   io.Reader
	sum *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Add(int64(n))
	return n, err
}
