package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// deadline bounds every wait. It is long, because tests wait for conditions and measure no time
// against it.
const deadline = 2 * time.Minute

// provable has enough pods for the proxy to prove consistent reads of them. Its watches send a
// bookmark after a second. Otherwise a proof by the bookmark of a WATCH would take as long as the
// timeouts of patient allow.
var provable = apiserver.Options{Pods: 2 * mirror.MinProofObjects, BookmarkInterval: time.Second}

// patient returns timeouts with which a proof may take as long as a test.
func patient() timeouts {
	p := defaultTimeouts
	p.Proof = deadline
	return p
}

// timing returns the default timeouts with the changes that the given function makes.
func timing(change func(w *timeouts)) timeouts {
	w := defaultTimeouts
	change(&w)
	return w
}

// leisurely returns timeouts with a long pause before a resource is cached again. Even on a slow
// machine, a test can then observe a resource without a session, that is, while it is not cached.
// Requests do not wait for the end of the pause.
func leisurely() timeouts {
	p := defaultTimeouts
	p.Restart, p.Reread = 15*time.Second, time.Millisecond
	return p
}

// testProxy is a proxy in front of a fake upstream, and a client of it.
type testProxy struct {
	t        *testing.T
	ctx      context.Context
	upstream *fakeUpstream
	server   *Server
	client   *http.Client
	authCA   *testenv.Authority
}

// must returns a function that fails the test if err is not nil.
func must(t *testing.T) func(result any, err error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		check.NoError(t, err)
	}
}

// start starts an upstream, and a proxy in front of it.
func start(t *testing.T, upstream apiserver.Options, o Options) (*fakeUpstream, *testProxy) {
	t.Helper()
	u := startUpstream(t, upstream)
	return u, startProxy(t, u, o)
}

// startReady is like start, and returns when the proxy is ready.
func startReady(t *testing.T, upstream apiserver.Options, o Options) (*fakeUpstream, *testProxy) {
	t.Helper()
	u, tp := start(t, upstream, o)
	tp.ready()
	return u, tp
}

// startProxy starts a proxy that trusts client certificates of the test's own CA, and none of the
// CAs that the upstream publishes.
func startProxy(t *testing.T, u *fakeUpstream, o Options) *testProxy {
	t.Helper()
	ca := newAuthority(t)
	o.Authentication.SkipLookup = true
	o.Authentication.ClientCAFile = ca.File
	return startWith(t, u, o, ca)
}

// startWith starts a proxy that trusts client certificates according to the options.
func startWith(t *testing.T, u *fakeUpstream, o Options, ca *testenv.Authority) *testProxy {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	tp := &testProxy{t: t, ctx: ctx, upstream: u, authCA: ca}
	o.Upstream = u.config
	if o.Authentication.AllowTTL == 0 {
		o.Authentication.TokenTTL, o.Authentication.AllowTTL, o.Authentication.DenyTTL = time.Nanosecond, time.Nanosecond, time.Nanosecond
	}
	var err error
	if tp.server, err = New(ctx, o); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, tp.server.Start())
	t.Cleanup(func() {
		if err := tp.server.Close(); err != nil {
			t.Error(err)
		}
	})
	tp.client = tp.clientWith(nil)
	return tp
}

// newAuthority creates a CA for callers' certificates.
func newAuthority(t *testing.T) *testenv.Authority {
	t.Helper()
	ca, err := testenv.NewAuthority(filepath.Join(t.TempDir(), "ca.crt"))
	check.NoError(t, err)
	return ca
}

// clientWith returns a client with a certificate, or without one if cert is nil.
func (tp *testProxy) clientWith(cert *tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(tp.server.CAData())
	cfg := &tls.Config{RootCAs: pool}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	return tp.clientOf(&http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true})
}

// http1 returns a client that speaks only HTTP/1.1.
func (tp *testProxy) http1(cert *tls.Certificate) *http.Client {
	tr := tp.clientWith(cert).Transport.(*http.Transport).Clone()
	tr.ForceAttemptHTTP2, tr.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
	return tp.clientOf(tr)
}

func (tp *testProxy) clientOf(tr *http.Transport) *http.Client {
	tp.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// open sends a request, and returns the response with its body unread. headers alternates names and
// values.
func (tp *testProxy) open(c *http.Client, method, path string, headers ...string) *http.Response {
	tp.t.Helper()
	req, err := http.NewRequestWithContext(tp.ctx, method, tp.server.URL()+path, nil)
	check.NoError(tp.t, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	check.NoError(tp.t, err)
	tp.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// openWebSocket requests a WebSocket as jane.
func (tp *testProxy) openWebSocket(path string) *http.Response {
	tp.t.Helper()
	return tp.open(tp.http1(nil), http.MethodGet, path, "Authorization", "Bearer token-jane", "Connection", "Upgrade", "Upgrade", "websocket")
}

// get sends a GET with the token of a user, and returns the status code and the whole body.
func (tp *testProxy) get(user, path string, headers ...string) (code int, body string) {
	tp.t.Helper()
	resp := tp.open(tp.client, http.MethodGet, path, append(headers, "Authorization", "Bearer token-"+user)...)
	raw, err := io.ReadAll(resp.Body)
	check.NoError(tp.t, err)
	return resp.StatusCode, string(raw)
}

// want sends a GET and reports an error if its status code is not code.
func (tp *testProxy) want(code int, user, path string, headers ...string) {
	tp.t.Helper()
	if got, body := tp.get(user, path, headers...); got != code {
		tp.t.Errorf("GET %.200s as %s: %d, want %d: %.300s", path, user, got, code, body)
	}
}

// says sends a GET and reports an error if its status code is not code, or if its body does not
// contain text.
func (tp *testProxy) says(code int, text, user, path string, headers ...string) {
	tp.t.Helper()
	if got, body := tp.get(user, path, headers...); got != code || !strings.Contains(body, text) {
		tp.t.Errorf("GET %.200s as %s: %d, want %d with %q: %.300s", path, user, got, code, text, body)
	}
}

// opens sends a request and reports an error if its status code is not code. headers alternates
// names and values.
func (tp *testProxy) opens(code int, c *http.Client, method, path string, headers ...string) {
	tp.t.Helper()
	if resp := tp.open(c, method, path, headers...); resp.StatusCode != code {
		tp.t.Errorf("%s %.200s with %.200q: %s, want %d", method, path, headers, resp.Status, code)
	}
}

// serves reports whether the proxy has cached a resource and can answer reads of it.
func (tp *testProxy) serves(gvr schema.GroupVersionResource) bool {
	res := tp.server.mirror.Find(gvr)
	return res != nil && res.Serving() != nil
}

// sendCode sends a GET, and then its status code to codes. If there is no answer, it fails the test
// and sends 0.
func (tp *testProxy) sendCode(codes chan<- int, user, path string) {
	var code int
	defer func() { codes <- code }() // also if get calls FailNow, which ends the goroutine
	code, _ = tp.get(user, path)
}

// initial returns the events of a watch up to the end of its initial events.
func (tp *testProxy) initial(user, path string, headers ...string) (code int, body string) {
	tp.t.Helper()
	resp := tp.open(tp.client, http.MethodGet, path, append(headers, "Authorization", "Bearer token-"+user)...)
	defer resp.Body.Close()
	var events strings.Builder
	for lines := bufio.NewReader(resp.Body); !strings.Contains(body, metav1.InitialEventsAnnotationKey); {
		var err error
		if body, err = lines.ReadString('\n'); err != nil {
			tp.t.Fatal(err)
		}
		events.WriteString(body)
	}
	return resp.StatusCode, events.String()
}

// continueToken returns a continue token of the proxy for the second page of pods. Pods must be
// cached.
func (tp *testProxy) continueToken() string {
	tp.t.Helper()
	_, body := tp.get("jane", "/api/v1/pods?limit=1")
	_, rest, more := strings.Cut(body, `"continue":"`)
	token, _, _ := strings.Cut(rest, `"`)
	if !more || token == "" {
		tp.t.Fatalf("no second page: %.200s", body)
	}
	return token
}

// until waits until cond returns true. It fails the test after deadline.
func (tp *testProxy) until(what string, cond func() bool) {
	tp.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-tp.ctx.Done():
			tp.t.Fatal("waited in vain until " + what)
		}
	}
}

// ready waits until the proxy has cached every configured resource.
func (tp *testProxy) ready() {
	tp.t.Helper()
	tp.until("ready", func() bool {
		code, _ := tp.get("jane", "/readyz")
		return code == http.StatusOK
	})
	tp.upstream.forwarded("")
}

// metric returns the value of a metric of the proxy. labels are its label values, in the order of
// the labels' names.
func (tp *testProxy) metric(name string, labels ...string) float64 {
	tp.t.Helper()
	all, err := tp.server.registry.Gather()
	check.NoError(tp.t, err)
	for _, family := range all {
		for _, m := range family.GetMetric() {
			matches := func(l *dto.LabelPair, value string) bool { return l.GetValue() == value }
			if family.GetName() == name && slices.EqualFunc(m.GetLabel(), labels, matches) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	tp.t.Fatalf("no metric %s %v", name, labels)
	return 0
}

// Users of the control plane.
const (
	scheduler         = "system:kube-scheduler"
	controllerManager = "system:kube-controller-manager"
)

// inUse returns how many requests have a seat in the pool.
func inUse(p *seats.Pool) (n int) {
	taken, _ := p.Counts()
	for _, of := range taken {
		n += of
	}
	return n
}

// watching waits until the proxy watches resources. The proxy serves a resource slightly earlier,
// but cannot prove before it watches that the cache is current.
func (tp *testProxy) watching(of ...*mirror.Resource) {
	tp.t.Helper()
	for _, res := range of {
		tp.until(res.GVR().Resource+" are watched", func() bool {
			sess := res.Serving()
			if sess == nil {
				return false
			}
			st := sess.Reflector().Status()
			return st.Phase == reflector.Watching && st.Err == nil
		})
	}
}

// strict parses a GET of a URL with request.Strict. It returns nil if Strict does not accept the
// request.
func strict(at *url.URL) *request.Request {
	return request.Strict(&http.Request{Method: http.MethodGet, URL: at})
}

// question returns a request for the Authorizer to decide.
func question(verb, resource, name string) *request.Request {
	return &request.Request{Info: request.Info{OfResource: true, Verb: verb, Path: request.Path{Resource: resource, Name: name}}}
}

// serveFrom answers a read directly from a cache.
func serveFrom(c *watchcache.Cache, w http.ResponseWriter, r *http.Request) {
	rq, err := request.Parse(r)
	if err != nil {
		watchcache.WriteError(w, r, err)
		return
	}
	c.Serve(w, r, rq)
}

// logBuffer is the output of a logger, which a test can read during writes. It is safe for
// concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string { return strings.Join(b.lines(""), "") }

// lines returns the logged lines that contain a text.
func (b *logBuffer) lines(with string) (out []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, with) {
			out = append(out, line)
		}
	}
	return out
}
