package proxy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/review"
)

// registerMetrics registers the server's metrics. A metric whose name starts with apiserver_ means
// the same as in kube-apiserver. docs/metrics.md lists all metrics.
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
