package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weirproject/weir/internal/core/request"
)

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
