package proxy

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// requestMetrics count requests as kube-apiserver does, under its names. Safe for concurrent use.
//
// Paths are what anybody likes to write, so that a resource is named only once a request for it has succeeded, and of maxNamed resources at
// most: others are counted without names.
type requestMetrics struct {
	total      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	running    *prometheus.GaugeVec
	terminated *prometheus.CounterVec

	mu    sync.Mutex
	named map[resourceName]struct{}
}

// resourceName is what metrics call a resource.
type resourceName struct{ group, version, resource, subresource string }

const (
	// component is in place of kube-apiserver's "apiserver".
	component = "weir-proxy"
	maxNamed  = 4096
)

var (
	ofResource = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	// durations are the buckets of kube-apiserver.
	durations = []float64{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
)

func newRequestMetrics(r prometheus.Registerer) *requestMetrics {
	m := &requestMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests that were answered. Code 0: the client had gone.",
		}, append([]string{"code", "dry_run"}, ofResource...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "How long requests took, watches included.", Buckets: durations,
		}, append([]string{"dry_run"}, ofResource...)),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches, logs, upgraded connections and proxied requests that are being answered.",
		}, ofResource),
		terminated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_terminations_total", Help: "Requests that were refused because there were too many, or too many connections.",
		}, append([]string{"code"}, ofResource...)),
		named: map[resourceName]struct{}{},
	}
	r.MustRegister(m.total, m.duration, m.running, m.terminated)
	return m
}

// name is what metrics call the resource of a request that was answered with code.
func (m *requestMetrics) name(info *request.RequestInfo, code int) resourceName {
	n := resourceName{info.APIGroup, info.APIVersion, info.Resource, info.Subresource}
	if !info.IsResourceRequest {
		return resourceName{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.named[n]; ok {
		return n
	}
	if code >= 300 || code != http.StatusSwitchingProtocols && code < 200 || len(m.named) >= maxNamed {
		return resourceName{}
	}
	m.named[n] = struct{}{}
	return n
}

// answer is the answer to a request while it is being given. It is of the request's goroutine.
type answer struct {
	http.ResponseWriter
	// waits: what was written last may wait in net/http's buffer, which takes what is smaller than itself.
	waits bool

	metrics *requestMetrics // nil: the request is not counted
	r       *http.Request
	info    *request.RequestInfo
	begun   time.Time
	code    int // 0: none yet
	running prometheus.Gauge
}

// netBuffer is the size of net/http's buffer of an answer by HTTP/2.
const netBuffer = 4 << 10

// count counts the request from here on to end.
func (a *answer) count(m *requestMetrics, r *http.Request, info *request.RequestInfo) {
	a.metrics, a.r, a.info, a.begun = m, r, info, time.Now()
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// note takes down the first code that is not merely informational.
func (a *answer) note(code int) {
	if a.code != 0 || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	a.code = code
	if a.metrics != nil && code < 300 && longRunning(a.info) {
		a.running = a.metrics.running.WithLabelValues(a.labels()...)
		a.running.Inc()
	}
}

func (a *answer) WriteHeader(code int) {
	a.note(code)
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(p []byte) (int, error) {
	a.note(http.StatusOK)
	a.waits = len(p) < netBuffer
	return a.ResponseWriter.Write(p)
}

// limit gives what is still to be written when the handler has returned its time. By HTTP/2 that is to ask the connection's goroutine.
func (a *answer) limit(r *http.Request) {
	if r.ProtoMajor == 1 || a.waits {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(writeStall)) // a writer that knows none is a test's
	}
}

// Hijack is how a connection is upgraded.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.note(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// labels are the values of ofResource.
func (a *answer) labels() []string {
	n := a.metrics.name(a.info, a.code)
	scope := scopeOf(a.info)
	return []string{verbOf(a.r, a.info, scope), n.group, n.version, n.resource, n.subresource, scope, component}
}

// end counts the request.
func (a *answer) end() {
	if a.running != nil {
		a.running.Dec()
	}
	labels, dry := a.labels(), dryRunOf(a.r.URL)
	a.metrics.total.WithLabelValues(append([]string{strconv.Itoa(a.code), dry}, labels...)...).Inc()
	a.metrics.duration.WithLabelValues(append([]string{dry}, labels...)...).Observe(time.Since(a.begun).Seconds())
}

// refused counts that the request was refused to protect the proxy.
func (a *answer) refused() {
	a.metrics.terminated.WithLabelValues(append([]string{strconv.Itoa(a.code)}, a.labels()...)...).Inc()
}

func scopeOf(info *request.RequestInfo) string {
	switch {
	case info.Name != "" || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	case info.IsResourceRequest:
		return "cluster"
	}
	return ""
}

// verbOf is the verb as kube-apiserver's metrics write it.
func verbOf(r *http.Request, info *request.RequestInfo, scope string) string {
	verb := r.Method
	switch {
	case info.IsResourceRequest && slices.Contains([]string{"log", "exec", "portforward", "attach", "proxy"}, info.Subresource):
		return "CONNECT"
	case info.Verb == "watch":
		return "WATCH"
	case verb == http.MethodPatch && r.Header.Get("Content-Type") == string(types.ApplyPatchType):
		return "APPLY"
	case verb == http.MethodGet || verb == http.MethodHead:
		if scope == "namespace" || scope == "cluster" {
			return "LIST"
		}
		return "GET"
	case slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, verb):
		return verb
	}
	return "other"
}

func dryRunOf(u *url.URL) string {
	if !strings.Contains(u.RawQuery, "dryRun") {
		return ""
	}
	for _, v := range u.Query()["dryRun"] {
		if v != "All" {
			return "invalid"
		}
	}
	return "All"
}
