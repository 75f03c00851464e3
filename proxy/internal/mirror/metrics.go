package mirror

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// emit emits one metric. In labels, names and values alternate.
type emit = func(name, help string, value float64, labels ...string)

// Collect emits the metrics of the cached resources: histograms to ch, and all other metrics by
// calls of gauge and counter. A metric whose name starts with apiserver_ means the same as in
// kube-apiserver.
func (m *Mirror) Collect(ch chan<- prometheus.Metric, gauge, counter emit) {
	limit, used, evicted := m.Budget.Usage()
	gauge("weir_proxy_memory_budget_bytes", "The bound of the memory of resources on demand.", float64(limit))
	gauge("weir_proxy_memory_budget_used_bytes", "The memory of resources on demand at the last check, those being dropped included.", float64(used))
	counter("weir_proxy_memory_budget_evictions_total", "Resources that were evicted to stay within the budget.", float64(evicted))
	m.initSeconds.Collect(ch)
	seen := map[string]bool{}
	for _, res := range m.byPreference() {
		if seen[res.name()] {
			continue // another version of the same resource
		}
		seen[res.name()] = true
		res.collect(gauge, counter)
		if s := res.Serving(); s != nil {
			s.collect(ch, gauge, counter)
		}
	}
}

// labelled returns an emit that adds labels to those of each call.
func labelled(to emit, labels ...string) emit {
	return func(name, help string, value float64, more ...string) {
		to(name, help, value, slices.Concat(labels, more)...)
	}
}

// collect emits the metrics that a resource has even without a session.
func (res *Resource) collect(gauge, counter emit) {
	gauge, counter = labelled(gauge, "group", res.GVR.Group, "resource", res.GVR.Resource), labelled(counter, "group", res.GVR.Group, "resource", res.GVR.Resource)
	st, of := res.State(), &res.FeedStats
	counter("apiserver_watch_cache_initializations_total", "How often the proxy began to cache a resource.", float64(st.Sessions))
	counter("apiserver_watch_cache_initialization_errors_total", "How often that ended before the resource could be read.", float64(st.failed))
	counter("apiserver_init_events_total", "Objects received by first lists.", float64(of.InitialObjects.Load()))
	counter("apiserver_watch_cache_events_received_total", "Events received from upstream.", float64(of.Events.Load()))
	const proofs = "Requests to the upstream that prove the cache to be current: query for its newest resourceVersion, watch for a bookmark."
	counter("weir_proxy_proofs_total", proofs, float64(of.VersionQueries.Load()), "by", "query")
	counter("weir_proxy_proofs_total", proofs, float64(of.ProofWatches.Load()), "by", "watch")
	gauge("weir_proxy_watchers", "Watches that are served from the cache.", float64(res.Watching()))
	current := 0.0
	if st.Standing() == standingCurrent {
		current = 1
	}
	gauge("weir_proxy_current", "1 while a resource is cached and follows the upstream.", current)
	gauge("weir_proxy_resource_state",
		"1 for the state of a resource: current, behind, or why it is not cached: reading, failing, missing, forbidden, aggregated, rejected.",
		1, "state", st.Standing().label())
}

// collect emits the metrics of a session. They restart at zero with each session.
func (s *Session) collect(ch chan<- prometheus.Metric, gauge, counter emit) {
	group, resource := s.Info.Group, s.Info.GroupVersionResource.Resource
	st := s.Cache().Stats()
	counter("apiserver_watch_events_total", "Events sent from the cache to all watchers together, bookmarks included.",
		float64(st.InitialEvents+st.Events+st.Bookmarks), "group", group, "version", s.Info.Version, "resource", resource)
	waits := prometheus.NewDesc("apiserver_watch_cache_read_wait_seconds",
		"How long requests waited until the cache was fresh enough. There are no buckets.", []string{"group", "resource"}, nil)
	ch <- prometheus.MustNewConstHistogram(waits, st.Waits, st.WaitSeconds, nil, group, resource)

	gauge, counter = labelled(gauge, "group", group, "resource", resource), labelled(counter, "group", group, "resource", resource)
	gauge("weir_proxy_staleness_seconds", "Seconds since a cached resource was last shown to be the upstream's state.",
		max(time.Since(s.LastHeard()).Seconds(), 0))
	memory := s.Store().Memory()
	gauge("apiserver_resource_objects", "Objects cached.", float64(memory.Objects))
	for _, p := range memory.Purposes() {
		gauge("weir_store_bytes", "The memory of a resource, by purpose.", float64(p.Bytes), "purpose", p.Name)
	}
	gauge("apiserver_watch_cache_resource_version", "The resourceVersion up to which a resource is cached.", float64(st.ResourceVersion))
	counter("apiserver_watch_cache_events_dispatched_total", "Changes after the first list, each once, whether or not anybody watches.", float64(st.Changes))
	counter("apiserver_terminated_watchers_total",
		"Watches and LISTs that were ended because their client took nothing for minutes, or a state too slowly, or to stay within the memory for watches.",
		float64(st.Stalled))
	counter("weir_watchcache_gets_total", "GETs answered.", float64(st.Gets))
	counter("weir_watchcache_watches_total", "Watches begun.", float64(st.Watches))
	gauge("weir_watchcache_selective_watchers", "Watchers that are woken by nothing that does not concern them.", float64(st.Selective))
	counter("weir_watchcache_caught_up_total", "How often a watcher had fallen behind the log and was caught up from the table.", float64(st.CaughtUp))
	gauge("weir_watchcache_lag_changes", "By how many changes the slowest watcher is behind.", float64(st.Lag))
	counter("weir_watchcache_expired_total", "Requests for a state that is gone, answered 410.", float64(st.Expired))
	counter("weir_watchcache_too_large_total", "Requests for a state that had not come in time, answered 504.", float64(st.TooLarge))
	counter("weir_watchcache_encode_cache_hits_total", "Events in another representation than the stored one that were encoded already.", float64(st.EncodeCacheHits))
	counter("weir_watchcache_encode_cache_misses_total", "Events in another representation than the stored one that had to be encoded.", float64(st.EncodeCacheMisses))
	gauge("weir_watchcache_encode_cache_bytes", "What encoded events in other representations than the stored one take.", float64(st.EncodeCacheBytes))
	gauge("weir_watchcache_paged_bytes", "What is kept for later pages of LISTs: what has changed since their first.", float64(st.PagedBytes))
	counter("weir_watchcache_indexes_built_total", "Indexes made because selectors kept coming.", float64(st.IndexesBuilt))
	counter("weir_watchcache_indexes_dropped_total", "Indexes that made room for others.", float64(st.IndexesDropped))
	returned := uint64(0)
	for _, x := range st.Indexes {
		counter("weir_watchcache_states_total", "States that watches began with, by the index that they came from; empty: the table.", float64(x.States), "index", x.Name)
		gauge("weir_watchcache_index_bytes", "What an index takes; empty: the table, which counts as weir_store_bytes.", float64(x.Bytes), "index", x.Name)
		// kube-apiserver uses the label value watchcache for LISTs that it answers from its cache.
		counter("apiserver_storage_list_total", "LISTs answered from the cache, by the index that they were answered from; empty: the table.",
			float64(x.Lists), "storage", "watchcache", "index", x.Name)
		counter("apiserver_storage_list_fetched_objects_total", "Objects that LISTs looked at.", float64(x.Fetched), "storage", "watchcache", "index", x.Name)
		returned += x.Returned
	}
	counter("apiserver_storage_list_returned_objects_total", "Objects that LISTs answered with.", float64(returned), "storage", "watchcache")
}
