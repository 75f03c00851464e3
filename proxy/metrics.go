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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// Names that begin with apiserver_ mean the same as in kube-apiserver. docs/metrics.md lists all
// metrics.
var (
	byResource = []string{"group", "resource"}

	descInits = prometheus.NewDesc("apiserver_watch_cache_initializations_total",
		"How often the proxy began to cache a resource.", byResource, nil)
	descInitErrors = prometheus.NewDesc("apiserver_watch_cache_initialization_errors_total",
		"How often that ended before the resource could be read.", byResource, nil)
	descInitial = prometheus.NewDesc("apiserver_init_events_total",
		"Objects received by first lists.", byResource, nil)
	descEvents = prometheus.NewDesc("apiserver_watch_cache_events_received_total",
		"Events received from upstream.", byResource, nil)
	descObjects = prometheus.NewDesc("apiserver_resource_objects",
		"Objects cached.", byResource, nil)
	descMemory = prometheus.NewDesc("weir_store_bytes",
		"The memory of a resource, by purpose.", append(byResource, "purpose"), nil)
	descCurrent = prometheus.NewDesc("weir_proxy_current",
		"1 while a resource is cached and follows the upstream.", byResource, nil)
	descState = prometheus.NewDesc("weir_proxy_resource_state",
		"1 for the state of a resource: current, behind, or why it is not cached: reading, failing, missing, forbidden, aggregated, rejected.",
		append(byResource, "state"), nil)
	descAge = prometheus.NewDesc("weir_proxy_staleness_seconds",
		"Seconds since a cached resource was last shown to be the upstream's state.", byResource, nil)
	descWatchers = prometheus.NewDesc("weir_proxy_watchers",
		"Watches that are served from the cache.", byResource, nil)
	descProofs = prometheus.NewDesc("weir_proxy_proofs_total",
		"Requests to the upstream that prove the cache to be current: query for its newest resourceVersion, watch for a bookmark.",
		append(byResource, "by"), nil)
	descUpstream = prometheus.NewDesc("weir_proxy_upstream_requests_total",
		"Requests to the upstream: list, watch and all of the proxy's own for what it caches, forwarded for callers'.", []string{"for"}, nil)
	descFailures = prometheus.NewDesc("weir_proxy_upstream_failures_total",
		"Callers' requests that the upstream did not answer.", nil, nil)
	descBytes = prometheus.NewDesc("weir_proxy_upstream_bytes_total",
		"Bytes received from upstream for the cache, as they came.", nil, nil)
	descRevoked = prometheus.NewDesc("weir_proxy_revoked_watches_total",
		"Watches that ended because their caller lost the permission, or the upstream did not answer about it for too long.", nil, nil)
	descBudget = prometheus.NewDesc("weir_proxy_memory_budget_bytes",
		"The bound of the memory of resources on demand.", nil, nil)
	descBudgetUsed = prometheus.NewDesc("weir_proxy_memory_budget_used_bytes",
		"The memory of resources on demand at the last check, those being dropped included.", nil, nil)
	descEvicted = prometheus.NewDesc("weir_proxy_memory_budget_evictions_total",
		"Resources that were evicted to stay within the budget.", nil, nil)
	descShed = prometheus.NewDesc("weir_proxy_watches_shed_total",
		"Watches of clients that took nothing, or less than came, ended to stay within the memory for watches.", nil, nil)
)

func (s *Server) registerMetrics() {
	s.registry = prometheus.NewRegistry()
	s.served = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_proxy_served_total", Help: "Reads answered from the cache.",
	}, append(byResource, "verb"))
	s.resources.initSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "apiserver_watch_cache_initialization_duration_seconds", Help: "How long first lists took.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600},
	}, byResource)
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), s.served,
		s.resources.initSeconds, collector{s})
	s.metrics = newRequestMetrics(s.registry)
}

// libraryMetrics returns the metrics of k8s.io/apiserver about reviews, their caches and the audit
// log, and drops its others.
func libraryMetrics() ([]*dto.MetricFamily, error) {
	all, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(libraryPrefixes, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
	}), err
}

var libraryPrefixes = []string{"apiserver_delegated_auth", "authentication_token_cache_", "apiserver_audit_"}

// collector implements prometheus.Collector for a server.
type collector struct{ *Server }

// Describe implements prometheus.Collector.
func (s collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descInits, descInitErrors, descInitial, descEvents, descObjects, descMemory, descCurrent, descWatchers,
		descUpstream, descFailures, descBytes, descRevoked, descBudget, descBudgetUsed, descEvicted, descShed, descProofs, descAge, descState,
	} {
		ch <- d
	}
	describeCache(ch)
	seats.Describe(ch)
	conn.Describe(ch)
	describeRechecks(ch)
}

// Collect implements prometheus.Collector.
func (s collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	st := &s.resources.stats
	counter(descUpstream, uint64(st.Lists.Load()), "list")
	counter(descUpstream, uint64(st.Watches.Load()), "watch")
	counter(descUpstream, uint64(st.Requests.Load()), "all")
	counter(descUpstream, s.upstream.requests.Load(), "forwarded")
	counter(descFailures, s.upstream.failures.Load())
	counter(descBytes, uint64(st.WireBytes.Load()))
	counter(descRevoked, s.revoked.Load())
	budget, used, evicted := s.resources.budget.usage()
	gauge(descBudget, budget)
	gauge(descBudgetUsed, used)
	counter(descEvicted, evicted)
	counter(descShed, s.resources.shed())
	s.seats.Collect(ch)
	s.rechecker.collect(ch)
	if l := s.connections(); l != nil {
		l.Collect(ch)
	}
	seen := map[[2]string]bool{}
	for _, res := range s.resources.byPreference() {
		name := [2]string{res.gvr.Group, res.gvr.Resource}
		if seen[name] {
			continue // another version of the same resource
		}
		seen[name] = true
		st := res.state()
		counter(descInits, st.sessions, name[:]...)
		counter(descInitErrors, st.failed, name[:]...)
		counter(descInitial, res.feedStats.InitialObjects.Load(), name[:]...)
		counter(descEvents, res.feedStats.Events.Load(), name[:]...)
		counter(descProofs, res.feedStats.VersionQueries.Load(), name[0], name[1], "query")
		counter(descProofs, res.feedStats.ProofWatches.Load(), name[0], name[1], "watch")
		res.collect(ch, st, name[:])
	}
}

// byPreference returns the resources. The first of several versions of one is what its metrics are
// about: that which is configured, or else that which was asked for first.
func (rs *resources) byPreference() []*resource {
	all := rs.all()
	slices.SortStableFunc(all, func(a, b *resource) int {
		switch {
		case !a.onDemand && b.onDemand:
			return -1
		case !b.onDemand && a.onDemand:
			return 1
		}
		return a.created.Compare(b.created)
	})
	return all
}

func (res *resource) collect(ch chan<- prometheus.Metric, st *state, labels []string) {
	gauge := func(d *prometheus.Desc, v float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append(labels[:2:2], more...)...)
	}
	gauge(descWatchers, float64(res.watchers.Load()))
	follows := 0.0
	as := st.standing()
	if as == standingCurrent {
		follows = 1
	}
	gauge(descCurrent, follows)
	gauge(descState, 1, as.label())
	sess := st.serving()
	if sess == nil {
		return
	}
	gauge(descAge, max(time.Since(sess.LastHeard()).Seconds(), 0))
	sess.collectCache(ch, labels)
	m := sess.Store().Memory()
	gauge(descObjects, float64(m.Objects))
	for _, p := range m.Purposes() {
		gauge(descMemory, float64(p.Bytes), p.Name)
	}
}

const metricsPath = "/metrics"

// refuseMethod answers a request for the metrics that does not read them. It does not review the
// caller: any word is a method, and each would need another review.
func (s *Server) refuseMethod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodGet+", "+http.MethodHead)
	s.refuseUnread(w, r, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "the metrics are only read",
	}})
}

// serveMetrics answers /metrics for callers whom the upstream lets make that request. Requests that
// impersonate are refused.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	who, d := s.authn.authenticate(r, reviewOptions{})
	switch {
	case d.err() != nil:
		s.refuse(w, r, d.err())
		return
	case who == nil && (r.Header.Get("Authorization") != "" || s.authn.unauthenticated(r)):
		s.refuse(w, r, errUnauthorized())
		return
	case who == nil:
		who = &caller{user: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}
	}
	q := &request.Request{Info: *request.InfoOf(r.Method, r.URL)}
	switch d := s.authz.allows(r.Context(), who.user, q, reviewOptions{}); {
	case d.err() != nil:
		s.refuse(w, r, d.err())
		return
	case d != decisionAllow || hasImpersonation(r.Header):
		s.refuse(w, r, errForbidden(attributesOf(q, who.user)))
		return
	}
	record, err := s.auditor.Begin(r, attributesOf(q, who.user), false, begun)
	if err != nil {
		watchcache.WriteError(w, r, err)
		return
	}
	if record != nil {
		noted := record.Writer(w, false)
		defer noted.End()
		w = noted
	}
	all := prometheus.Gatherers{s.registry, prometheus.GathererFunc(libraryMetrics)}
	paced := newPacedWriter(w)
	defer paced.end()
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(paced, r)
}
