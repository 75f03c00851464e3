package mirror

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Names that begin with apiserver_ mean the same as in kube-apiserver.
var (
	ofResource = []string{"group", "resource"}

	descInits = prometheus.NewDesc("apiserver_watch_cache_initializations_total",
		"How often the proxy began to cache a resource.", ofResource, nil)
	descInitErrors = prometheus.NewDesc("apiserver_watch_cache_initialization_errors_total",
		"How often that ended before the resource could be read.", ofResource, nil)
	descInitial = prometheus.NewDesc("apiserver_init_events_total",
		"Objects received by first lists.", ofResource, nil)
	descEvents = prometheus.NewDesc("apiserver_watch_cache_events_received_total",
		"Events received from upstream.", ofResource, nil)
	descObjects = prometheus.NewDesc("apiserver_resource_objects",
		"Objects cached.", ofResource, nil)
	descMemory = prometheus.NewDesc("weir_store_bytes",
		"The memory of a resource, by purpose.", append(ofResource, "purpose"), nil)
	descCurrent = prometheus.NewDesc("weir_proxy_current",
		"1 while a resource is cached and follows the upstream.", ofResource, nil)
	descState = prometheus.NewDesc("weir_proxy_resource_state",
		"1 for the state of a resource: current, behind, or why it is not cached: reading, failing, missing, forbidden, aggregated, rejected.",
		append(ofResource, "state"), nil)
	descAge = prometheus.NewDesc("weir_proxy_staleness_seconds",
		"Seconds since a cached resource was last shown to be the upstream's state.", ofResource, nil)
	descWatchers = prometheus.NewDesc("weir_proxy_watchers",
		"Watches that are served from the cache.", ofResource, nil)
	descProofs = prometheus.NewDesc("weir_proxy_proofs_total",
		"Requests to the upstream that prove the cache to be current: query for its newest resourceVersion, watch for a bookmark.",
		append(ofResource, "by"), nil)
	descBudget = prometheus.NewDesc("weir_proxy_memory_budget_bytes",
		"The bound of the memory of resources on demand.", nil, nil)
	descBudgetUsed = prometheus.NewDesc("weir_proxy_memory_budget_used_bytes",
		"The memory of resources on demand at the last check, those being dropped included.", nil, nil)
	descEvicted = prometheus.NewDesc("weir_proxy_memory_budget_evictions_total",
		"Resources that were evicted to stay within the budget.", nil, nil)
)

// Collector returns the metrics of the cached resources.
func (m *Mirror) Collector() prometheus.Collector { return collector{m} }

type collector struct{ *Mirror }

// Describe implements prometheus.Collector.
func (m collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descInits, descInitErrors, descInitial, descEvents, descObjects, descMemory, descCurrent, descWatchers,
		descBudget, descBudgetUsed, descEvicted, descProofs, descAge, descState,
	} {
		ch <- d
	}
	m.initSeconds.Describe(ch)
	describeCache(ch)
}

// Collect implements prometheus.Collector.
func (m collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	budget, used, evicted := m.Budget.Usage()
	ch <- prometheus.MustNewConstMetric(descBudget, prometheus.GaugeValue, float64(budget))
	ch <- prometheus.MustNewConstMetric(descBudgetUsed, prometheus.GaugeValue, float64(used))
	counter(descEvicted, evicted)
	m.initSeconds.Collect(ch)
	seen := map[[2]string]bool{}
	for _, res := range m.byPreference() {
		name := [2]string{res.GVR.Group, res.GVR.Resource}
		if seen[name] {
			continue // another version of the same resource
		}
		seen[name] = true
		st := res.State()
		counter(descInits, st.Sessions, name[:]...)
		counter(descInitErrors, st.failed, name[:]...)
		counter(descInitial, res.FeedStats.InitialObjects.Load(), name[:]...)
		counter(descEvents, res.FeedStats.Events.Load(), name[:]...)
		counter(descProofs, res.FeedStats.VersionQueries.Load(), name[0], name[1], "query")
		counter(descProofs, res.FeedStats.ProofWatches.Load(), name[0], name[1], "watch")
		res.collect(ch, st, name[:])
	}
}

func (res *Resource) collect(ch chan<- prometheus.Metric, st *State, labels []string) {
	gauge := func(d *prometheus.Desc, v float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append(labels[:2:2], more...)...)
	}
	gauge(descWatchers, float64(res.Watching()))
	follows := 0.0
	as := st.Standing()
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

// watchCacheStorage is kube-apiserver's label value for LISTs answered from the cache.
const watchCacheStorage = "watchcache"

// cacheMetric is a metric read from a cache's statistics.
type cacheMetric struct {
	desc      *prometheus.Desc
	valueType prometheus.ValueType
	get       func(*watchcache.Stats) float64
}

func cacheCounter(name, help string, get func(*watchcache.Stats) uint64) cacheMetric {
	return cacheMetric{prometheus.NewDesc(name, help, ofResource, nil), prometheus.CounterValue, func(s *watchcache.Stats) float64 { return float64(get(s)) }}
}

func cacheGauge(name, help string, get func(*watchcache.Stats) float64) cacheMetric {
	return cacheMetric{prometheus.NewDesc(name, help, ofResource, nil), prometheus.GaugeValue, get}
}

// cacheMetrics are the metrics with the labels of ofResource. They restart with each session.
var cacheMetrics = []cacheMetric{
	cacheGauge("apiserver_watch_cache_resource_version", "The resourceVersion up to which a resource is cached.",
		func(s *watchcache.Stats) float64 { return float64(s.ResourceVersion) }),
	cacheCounter("apiserver_watch_cache_events_dispatched_total", "Changes after the first list, each once, whether or not anybody watches.",
		func(s *watchcache.Stats) uint64 { return s.Changes }),
	cacheCounter("apiserver_terminated_watchers_total", "Watches and LISTs that were ended because their client took nothing for minutes, or a state too slowly, or to stay within the memory for watches.",
		func(s *watchcache.Stats) uint64 { return s.Stalled }),
	cacheCounter("weir_watchcache_gets_total", "GETs answered.",
		func(s *watchcache.Stats) uint64 { return s.Gets }),
	cacheCounter("weir_watchcache_watches_total", "Watches begun.",
		func(s *watchcache.Stats) uint64 { return s.Watches }),
	cacheGauge("weir_watchcache_selective_watchers", "Watchers that are woken by nothing that does not concern them.",
		func(s *watchcache.Stats) float64 { return float64(s.Selective) }),
	cacheCounter("weir_watchcache_caught_up_total", "How often a watcher had fallen behind the log and was caught up from the table.",
		func(s *watchcache.Stats) uint64 { return s.CaughtUp }),
	cacheGauge("weir_watchcache_lag_changes", "By how many changes the slowest watcher is behind.",
		func(s *watchcache.Stats) float64 { return float64(s.Lag) }),
	cacheCounter("weir_watchcache_expired_total", "Requests for a state that is gone, answered 410.",
		func(s *watchcache.Stats) uint64 { return s.Expired }),
	cacheCounter("weir_watchcache_too_large_total", "Requests for a state that had not come in time, answered 504.",
		func(s *watchcache.Stats) uint64 { return s.TooLarge }),
	cacheCounter("weir_watchcache_encode_cache_hits_total", "Events in another representation than the stored one that were encoded already.",
		func(s *watchcache.Stats) uint64 { return s.EncodeCacheHits }),
	cacheCounter("weir_watchcache_encode_cache_misses_total", "Events in another representation than the stored one that had to be encoded.",
		func(s *watchcache.Stats) uint64 { return s.EncodeCacheMisses }),
	cacheGauge("weir_watchcache_encode_cache_bytes", "What encoded events in other representations than the stored one take.",
		func(s *watchcache.Stats) float64 { return float64(s.EncodeCacheBytes) }),
	cacheGauge("weir_watchcache_paged_bytes", "What is kept for later pages of LISTs: what has changed since their first.",
		func(s *watchcache.Stats) float64 { return float64(s.PagedBytes) }),
	cacheCounter("weir_watchcache_indexes_built_total", "Indexes made because selectors kept coming.",
		func(s *watchcache.Stats) uint64 { return s.IndexesBuilt }),
	cacheCounter("weir_watchcache_indexes_dropped_total", "Indexes that made room for others.",
		func(s *watchcache.Stats) uint64 { return s.IndexesDropped }),
}

var (
	byIndex   = append(ofResource, "index")
	byStorage = append(ofResource, "storage")

	descWatchEvents = prometheus.NewDesc("apiserver_watch_events_total",
		"Events sent from the cache to all watchers together, bookmarks included.", []string{"group", "version", "resource"}, nil)
	descReadWait = prometheus.NewDesc("apiserver_watch_cache_read_wait_seconds",
		"How long requests waited until the cache was fresh enough. There are no buckets.", ofResource, nil)
	descLists = prometheus.NewDesc("apiserver_storage_list_total",
		"LISTs answered from the cache, by the index that they were answered from; empty: the table.", append(byStorage, "index"), nil)
	descFetched = prometheus.NewDesc("apiserver_storage_list_fetched_objects_total",
		"Objects that LISTs looked at.", append(byStorage, "index"), nil)
	descReturned = prometheus.NewDesc("apiserver_storage_list_returned_objects_total",
		"Objects that LISTs answered with.", byStorage, nil)
	descStates = prometheus.NewDesc("weir_watchcache_states_total",
		"States that watches began with, by the index that they came from; empty: the table.", byIndex, nil)
	descIndexBytes = prometheus.NewDesc("weir_watchcache_index_bytes",
		"What an index takes; empty: the table, which counts as weir_store_bytes.", byIndex, nil)
)

func describeCache(ch chan<- *prometheus.Desc) {
	for _, m := range cacheMetrics {
		ch <- m.desc
	}
	for _, d := range []*prometheus.Desc{descWatchEvents, descReadWait, descLists, descFetched, descReturned, descStates, descIndexBytes} {
		ch <- d
	}
}

// collectCache collects the metrics of a session's cache; labels are the values of ofResource.
func (s *Session) collectCache(ch chan<- prometheus.Metric, labels []string) {
	st := s.Cache().Stats()
	with := func(more ...string) []string { return append(labels[:2:2], more...) }
	send := func(d *prometheus.Desc, valueType prometheus.ValueType, v float64, values []string) {
		ch <- prometheus.MustNewConstMetric(d, valueType, v, values...)
	}
	for _, m := range cacheMetrics {
		send(m.desc, m.valueType, m.get(&st), labels)
	}
	send(descWatchEvents, prometheus.CounterValue, float64(st.InitialEvents+st.Events+st.Bookmarks), []string{labels[0], s.Info.Version, labels[1]})
	ch <- prometheus.MustNewConstHistogram(descReadWait, st.Waits, st.WaitSeconds, nil, labels...)
	returned := 0.0
	for _, x := range st.Indexes {
		send(descLists, prometheus.CounterValue, float64(x.Lists), with(watchCacheStorage, x.Name))
		send(descFetched, prometheus.CounterValue, float64(x.Fetched), with(watchCacheStorage, x.Name))
		send(descStates, prometheus.CounterValue, float64(x.States), with(x.Name))
		send(descIndexBytes, prometheus.GaugeValue, float64(x.Bytes), with(x.Name))
		returned += float64(x.Returned)
	}
	send(descReturned, prometheus.CounterValue, returned, with(watchCacheStorage))
}
