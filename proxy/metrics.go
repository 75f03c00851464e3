package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/review"
)

// registerMetrics registers the server's metrics. A metric whose name starts with apiserver_ means
// the same as in kube-apiserver. docs/reference/proxy-metrics.md lists all metrics.
func (s *Server) registerMetrics() {
	s.registry = prometheus.NewRegistry()
	s.served = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_proxy_served_total", Help: "Reads that the proxy answered from the cache.",
	}, []string{"group", "resource", "verb"})
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.served, collector{s})
	s.metrics = newRequestMetrics(s.registry)
}

// libraryMetrics returns the metrics of k8s.io/apiserver about reviews, their caches and the audit
// log. It drops the other metrics of k8s.io/apiserver.
func libraryMetrics() ([]*dto.MetricFamily, error) {
	all, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(libraryPrefixes, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
	}), err
}

var libraryPrefixes = []string{"apiserver_delegated_auth", "authentication_token_cache_", "apiserver_audit_"}

// collector collects the metrics whose values other parts of the server count, such as the mirror
// (the cache of the resources).
type collector struct{ *Server }

// Describe implements prometheus.Collector. It sends no descriptions: Collect sends the help and
// the labels of each metric with its value.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s collector) Collect(ch chan<- prometheus.Metric) {
	gauge, counter := emitter(ch, prometheus.GaugeValue), emitter(ch, prometheus.CounterValue)
	st := &s.mirror.Stats
	for to, n := range map[string]float64{
		"list": float64(st.Lists.Load()), "watch": float64(st.Watches.Load()), "all": float64(st.Requests.Load()), "forwarded": float64(s.upstream.requests.Load()),
	} {
		counter("weir_proxy_upstream_requests_total",
			"Requests to the upstream. list, watch: the proxy's own requests for cached resources; all: all of its own requests; forwarded: requests of callers.", n, "for", to)
	}
	counter("weir_proxy_upstream_failures_total", "Requests of callers that the upstream did not answer.", float64(s.upstream.failures.Load()))
	counter("weir_proxy_upstream_bytes_total", "Bytes received from the upstream for the cache, before decompression.", float64(st.WireBytes.Load()))
	counter("weir_proxy_revoked_watches_total",
		"Watches that ended because their caller lost the permission, or because the upstream did not confirm it for too long.", float64(s.revoked.Load()))
	counter("weir_proxy_watches_shed_total",
		"Watches that the proxy ended because the memory for watches was used up: stuck ones, whose clients read nothing, and slow ones.", float64(s.mirror.Shed.Load()))
	s.mirror.Collect(ch, gauge, counter)
	s.seats.Metrics(gauge, counter)
	s.rechecker.Metrics(gauge, counter)
	if l := s.clients.Load(); l != nil {
		l.Metrics(gauge, counter)
	}
}

// emitter returns a function that sends metrics of the given type to ch. In labels, names and
// values alternate.
func emitter(ch chan<- prometheus.Metric, of prometheus.ValueType) func(name, help string, value float64, labels ...string) {
	return func(name, help string, value float64, labels ...string) {
		var names, values []string
		for pair := range slices.Chunk(labels, 2) {
			names, values = append(names, pair[0]), append(values, pair[1])
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), of, value, values...)
	}
}

const metricsPath = "/metrics"

// refuseMethod refuses a request for the metrics whose method is neither GET nor HEAD. It does not
// review the caller. A method may be any word, so a client could cause a new review with each word.
func (s *Server) refuseMethod(a *responseWriter, r *http.Request) {
	a.Header().Set("Allow", http.MethodGet+", "+http.MethodHead)
	s.refuseUnread(a, r, watchcache.NewStatusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "/metrics accepts only GET and HEAD"))
}

// serveMetrics answers /metrics for callers whom the upstream allows to make that request. It
// refuses all other callers, and requests that impersonate.
func (s *Server) serveMetrics(w *responseWriter, r *http.Request) {
	begun := time.Now()
	who, d := s.authn.Authenticate(r, review.Options{})
	switch {
	case d.Err() != nil:
		s.refuse(w, r, d.Err())
		return
	case who == nil && (r.Header.Get("Authorization") != "" || s.authn.Unauthenticated(r)):
		s.refuse(w, r, review.Unauthorized())
		return
	case who == nil:
		who = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	}
	q := &request.Request{Info: *request.InfoOf(r.Method, r.URL)}
	switch d := s.authz.Allows(r.Context(), who, q, review.Options{}); {
	case d.Err() != nil:
		s.refuse(w, r, d.Err())
		return
	case d != review.Allow || review.HasImpersonation(r.Header):
		s.refuse(w, r, review.Forbidden(review.Attributes(q, who)))
		return
	}
	record, err := s.auditor.Begin(r, review.Attributes(q, who), false, begun)
	if err != nil {
		watchcache.WriteError(w, r, err)
		return
	}
	if record != nil {
		record.AddID(w.Header())
		w.record(record, r)
	}
	all := prometheus.Gatherers{s.registry, prometheus.GathererFunc(libraryMetrics)}
	paced := newPacedWriter(w)
	defer paced.end()
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(paced, r)
}

// requestMetrics counts requests under kube-apiserver's metric names. It is safe for concurrent
// use.
//
// A client can send any path. Therefore the labels name a resource only after a request for it has
// succeeded, and they name at most maxNamedResources resources. Other requests have empty resource
// labels.
type requestMetrics struct {
	total      *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	running    *prometheus.GaugeVec
	terminated *prometheus.CounterVec

	mu        sync.Mutex
	resources map[metricResource]struct{}
}

// metricResource contains the resource labels of a request.
type metricResource struct{ group, version, resource, subresource string }

const (
	// component replaces kube-apiserver's "apiserver".
	component         = "weir-proxy"
	maxNamedResources = 4096
)

var (
	requestLabels = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	// durationBuckets are kube-apiserver's buckets.
	durationBuckets = []float64{.005, .025, .05, .1, .2, .4, .6, .8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
)

func newRequestMetrics(r prometheus.Registerer) *requestMetrics {
	m := &requestMetrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests that were answered. Code 0: the client had disconnected.",
		}, append([]string{"code", "dry_run"}, requestLabels...)),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "The duration of requests, watches included.", Buckets: durationBuckets,
		}, append([]string{"dry_run"}, requestLabels...)),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches, logs, upgraded connections and proxied requests in progress.",
		}, requestLabels),
		terminated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_terminations_total", Help: "Requests that the proxy refused because of too many requests or connections, or because the query was too long.",
		}, append([]string{"code"}, requestLabels...)),
		resources: map[metricResource]struct{}{},
	}
	r.MustRegister(m.total, m.duration, m.running, m.terminated)
	return m
}

// maxNamed bounds each resource label, in bytes. No API has longer names.
const maxNamed = 253

// name returns the resource labels for a request that was answered with code. It adds the resource
// to the known resources if the request succeeded. An OPTIONS request never adds a resource:
// kube-apiserver answers a browser's preflight for any path, without authentication.
func (m *requestMetrics) name(method string, info *request.Info, code int) metricResource {
	n := metricResource{info.Group, info.Version, info.Resource, info.Subresource}
	if !info.OfResource {
		return metricResource{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.resources[n]; ok {
		return n
	}
	if code >= 300 || code != http.StatusSwitchingProtocols && code < 200 || len(m.resources) >= maxNamedResources || method == http.MethodOptions {
		return metricResource{}
	}
	for _, text := range []*string{&n.group, &n.version, &n.resource, &n.subresource} {
		if len(*text) > maxNamed || !utf8.ValidString(*text) {
			return metricResource{}
		}
		*text = strings.Clone(*text) // do not keep the whole target of the request in memory
	}
	m.resources[n] = struct{}{}
	return n
}

func scopeOf(info *request.Info) string {
	return metrics.CleanScope(&apirequest.RequestInfo{
		Name: info.ReviewName(), Namespace: info.Namespace, Verb: info.Verb, IsResourceRequest: info.OfResource,
	})
}

// verbOf returns the verb as it appears in kube-apiserver's metrics.
func verbOf(r *http.Request, info *request.Info, scope string) string {
	verb := metrics.CanonicalVerb(r.Method, scope)
	switch {
	case info.OfResource && slices.Contains([]string{"log", "exec", "portforward", "attach", "proxy"}, info.Subresource):
		return "CONNECT"
	case info.Verb == "watch":
		return "WATCH"
	case verb == http.MethodPatch && r.Header.Get("Content-Type") == string(types.ApplyPatchType):
		return "APPLY"
	case slices.Contains([]string{"GET", "LIST", "POST", "PUT", "PATCH", "DELETE"}, verb):
		return verb
	}
	return "other"
}

// dryRunOf returns the value of the label dry_run.
func dryRunOf(u *url.URL) string {
	dry := ""
	for v := range request.QueryOf(u).All("dryRun") {
		if dry = "All"; v != "All" {
			return "invalid"
		}
	}
	return dry
}
