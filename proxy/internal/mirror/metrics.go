package mirror

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// emit emits one metric. In labels, names and values alternate.
type emit = func(name, help string, value float64, labels ...string)

// Collect emits the metrics of the cached resources: histograms to ch, and all other metrics by
// calls of gauge and counter. A metric whose name starts with apiserver_ means the same as in
// kube-apiserver.
func (m *Mirror) Collect(ch chan<- prometheus.Metric, gauge, counter emit) {
	limit, used, evicted := m.Budget.Usage()
	gauge("weir_proxy_memory_budget_bytes", "The limit of the memory of resources that are cached on demand.", float64(limit))
	gauge("weir_proxy_memory_budget_used_bytes", "The memory of resources that are cached on demand, at the last check, including resources that are being evicted.", float64(used))
	counter("weir_proxy_memory_budget_evictions_total", "Resources that were evicted because the budget was used up.", float64(evicted))
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

// labelled returns an emit that adds labels to the labels of each call.
func labelled(to emit, labels ...string) emit {
	return func(name, help string, value float64, more ...string) {
		to(name, help, value, slices.Concat(labels, more)...)
	}
}

// collect emits the metrics that a resource has even without a session.
func (res *Resource) collect(gauge, counter emit) {
	gauge, counter = labelled(gauge, "group", res.GVR().Group, "resource", res.GVR().Resource), labelled(counter, "group", res.GVR().Group, "resource", res.GVR().Resource)
	st, of := res.State(), &res.FeedStats
	counter("apiserver_watch_cache_initializations_total", "How often the proxy started to cache a resource.", float64(st.Sessions))
	counter("apiserver_watch_cache_initialization_errors_total", "How often the proxy stopped caching a resource before it had read the resource.", float64(st.failed))
	counter("apiserver_init_events_total", "Objects received by first lists.", float64(of.InitialObjects.Load()))
	counter("apiserver_watch_cache_events_received_total", "Events received from upstream.", float64(of.Events.Load()))
	const proofs = "Requests to the upstream that prove that the cache is current: query requests the newest resourceVersion, watch a bookmark."
	counter("weir_proxy_proofs_total", proofs, float64(of.VersionQueries.Load()), "by", "query")
	counter("weir_proxy_proofs_total", proofs, float64(of.ProofWatches.Load()), "by", "watch")
	gauge("weir_proxy_watchers", "Watches that are served from the cache.", float64(res.Watching()))
	current := 0.0
	if st.Standing() == standingCurrent {
		current = 1
	}
	gauge("weir_proxy_current", "1 while a resource is cached and current.", current)
	gauge("weir_proxy_resource_state",
		"1 for the state of a resource: current, behind, or the reason why it is not cached: reading, failing, missing, forbidden, aggregated, rejected.",
		1, "state", st.Standing().label())
}

// collect emits the metrics of a session. The counters restart at zero with each session.
func (s *Session) collect(ch chan<- prometheus.Metric, gauge, counter emit) {
	group, resource := s.Info.Group, s.Info.GroupVersionResource.Resource
	st := s.Cache().Stats()
	counter("apiserver_watch_events_total", "Events that the cache sent to all watchers together, bookmarks included.",
		float64(st.InitialEvents+st.Events+st.Bookmarks), "group", group, "version", s.Info.Version, "resource", resource)
	waits := prometheus.NewDesc("apiserver_watch_cache_read_wait_seconds",
		"How long requests waited until the cache was fresh enough. There are no buckets.", []string{"group", "resource"}, nil)
	ch <- prometheus.MustNewConstHistogram(waits, st.Waits, st.WaitSeconds, nil, group, resource)

	gauge, counter = labelled(gauge, "group", group, "resource", resource), labelled(counter, "group", group, "resource", resource)
	gauge("weir_proxy_staleness_seconds", "Seconds since the upstream last confirmed the cached state of a resource.",
		max(time.Since(s.LastHeard()).Seconds(), 0))
	memory := s.Store().Memory()
	gauge("apiserver_resource_objects", "Objects cached.", float64(memory.Objects))
	for _, p := range memory.Purposes() {
		gauge("weir_store_bytes", "The memory of a resource, by purpose.", float64(p.Bytes), "purpose", p.Name)
	}
	gauge("apiserver_watch_cache_resource_version", "The resourceVersion up to which a resource is cached.", float64(st.ResourceVersion))
	counter("apiserver_watch_cache_events_dispatched_total", "Changes after the first list. Each counts once, with or without watchers.", float64(st.Changes))
	counter("apiserver_terminated_watchers_total",
		"Watches and LISTs that the proxy ended because the client read nothing for minutes, because it read a state too slowly, or because the memory for watches was used up.",
		float64(st.Stalled))
	counter("weir_watchcache_gets_total", "GETs answered.", float64(st.Gets))
	counter("weir_watchcache_watches_total", "Watches that have started.", float64(st.Watches))
	gauge("weir_watchcache_selective_watchers", "Watchers that wake only for changes that match their selectors or namespaces.", float64(st.Selective))
	counter("weir_watchcache_caught_up_total", "How often a watcher had fallen behind the change log and received the current state instead.", float64(st.CaughtUp))
	gauge("weir_watchcache_lag_changes", "The number of changes that the slowest watcher has not received yet.", float64(st.Lag))
	counter("weir_watchcache_expired_total", "Requests for an expired state, answered with 410.", float64(st.Expired))
	counter("weir_watchcache_too_large_total", "Requests for a state that the cache did not reach in time, answered with 504.", float64(st.TooLarge))
	counter("weir_watchcache_encode_cache_hits_total", "Events in a different representation than the stored one that were found encoded.", float64(st.EncodeCacheHits))
	counter("weir_watchcache_encode_cache_misses_total", "Events in a different representation than the stored one that had to be encoded.", float64(st.EncodeCacheMisses))
	gauge("weir_watchcache_encode_cache_bytes", "The memory of encoded events in different representations than the stored one.", float64(st.EncodeCacheBytes))
	gauge("weir_watchcache_paged_bytes", "The memory of the changes since the first pages of LISTs, which later pages need.", float64(st.PagedBytes))
	counter("weir_watchcache_indexes_built_total", "Indexes that were built because requests with the same kind of selector were frequent.", float64(st.IndexesBuilt))
	counter("weir_watchcache_indexes_dropped_total", "Indexes that were dropped to make room for other indexes.", float64(st.IndexesDropped))
	returned := uint64(0)
	for _, x := range st.Indexes {
		counter("weir_watchcache_states_total", "States with which watches started, by the index that they were read from; empty: the table.", float64(x.States), "index", x.Name)
		gauge("weir_watchcache_index_bytes", "The memory of an index; empty: the table, whose memory counts as weir_store_bytes.", float64(x.Bytes), "index", x.Name)
		// kube-apiserver uses the label value watchcache for LISTs that it answers from its cache.
		counter("apiserver_storage_list_total", "LISTs answered from the cache, by the index that they were read from; empty: the table.",
			float64(x.Lists), "storage", "watchcache", "index", x.Name)
		counter("apiserver_storage_list_fetched_objects_total", "Objects that LISTs examined.", float64(x.Fetched), "storage", "watchcache", "index", x.Name)
		returned += x.Returned
	}
	counter("apiserver_storage_list_returned_objects_total", "Objects that LISTs returned.", float64(returned), "storage", "watchcache")
}

// Inspect returns a description of each resource, in the order of their full names.
func (m *Mirror) Inspect() []registry.ProxyResource {
	all := []registry.ProxyResource{}
	for _, res := range m.All() {
		all = append(all, res.inspect())
	}
	slices.SortFunc(all, func(a, b registry.ProxyResource) int { return cmp.Compare(a.FullName, b.FullName) })
	return all
}

// Objects returns the objects of the resource with the given name or full name, and reports whether
// the resource is cached.
func (m *Mirror) Objects(name string) (registry.ProxyObjects, bool) {
	all := m.byPreference()
	for _, nameOf := range []func(*Resource) string{(*Resource).fullName, (*Resource).name} {
		for _, res := range all {
			if s := res.Serving(); s != nil && nameOf(res) == name {
				return s.inspect(), true
			}
		}
	}
	return registry.ProxyObjects{}, false
}

func (res *Resource) inspect() registry.ProxyResource {
	st := res.State()
	r := registry.ProxyResource{
		Name: res.name(), FullName: res.fullName(), Version: res.GVR().Version, State: st.Standing().String(), Configured: !res.onDemand,
		Error: st.Err, Events: res.FeedStats.Events.Load(), Sessions: st.Sessions, Watchers: res.Watching(),
	}
	if at := res.lastRead.Load(); at != 0 {
		r.LastRead = new(time.Unix(0, at))
	}
	s := st.Session
	if s == nil {
		return r
	}
	r.Reflector, r.Transitions, r.Relists = new(s.Reflector().Status()), s.Reflector().Transitions(), s.Reflector().Relists()
	r.Objects, r.ResourceVersion, r.Memory = s.Store().Len(), s.Store().ResourceVersion(), s.Store().Memory()
	if at := s.LastHeard(); !at.IsZero() && at.Unix() > 0 {
		r.Heard = &at
	}
	cache := s.Cache().Stats()
	r.Gets, r.Sent, r.Lag, r.BacklogBytes = cache.Gets, cache.InitialEvents+cache.Events+cache.Bookmarks, cache.Lag, cache.BacklogBytes
	r.CaughtUp, r.Stalled = cache.CaughtUp, cache.Stalled
	for _, x := range cache.Indexes {
		r.ListsServed += x.Lists
	}
	return r
}

// fullName returns the resource's name with its version. The core group has only one version, which
// is left out.
func (res *Resource) fullName() string {
	if res.GVR().Group == "" || res.GVR().Version == "" {
		return res.name()
	}
	return res.GVR().Resource + "." + res.GVR().Version + "." + res.GVR().Group
}

func (s *Session) inspect() registry.ProxyObjects {
	kind := s.Info.GroupVersionKind()
	return registry.ProxyObjects{Store: s.Store(), Kind: wire.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, Decode: s.decode}
}

func (s *Session) decode(o *store.Object) (any, error) {
	raw, err := o.AppendRaw(nil)
	if err != nil {
		return nil, err
	}
	return codec.OfStruct(s.Info.Type).Decode(raw, nil)
}
