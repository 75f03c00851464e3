package watchcache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// The cache builds indexes on demand. A LIST, or the initial state of a WATCH, counts the objects
// that it visited although they do not match. The cache charges that number to each index that
// would have avoided the visits. When the charges of an index within idleAfter reach buildAfter
// times the number of objects, the cache builds the index in the background. If there are too many
// indexes, the cache first drops one that no request has used for idleAfter. So a flood of
// different selectors causes only indexes that would have saved several walks over the table. The
// cache drops no index that is in use.
const (
	maxIndexes = 8
	maxWanted  = 64 // number of indexes that may have charges
	buildAfter = 3
	idleAfter  = time.Minute
	minToIndex = 1000 // objects
	// The bytes of all indexes built on demand are limited to minIndexBudget, or to a quarter of the
	// packed objects' bytes if that is more.
	minIndexBudget = 4 << 20
)

// indexes contains the cache's indexes in the store, and the charges of indexes that the cache
// might build. It is safe for concurrent use.
type indexes struct {
	cache *Cache
	table indexCounters

	built, dropped atomic.Uint64

	mu       sync.Mutex
	byName   map[string]*index // the permanent ones, and up to maxIndexes others
	wanted   map[string]int    // visited objects that did not match, by index name; at most maxWanted
	since    time.Time         // when wanted was last emptied
	building bool
}

// index is an index in the store. The lock of indexes guards it, except for the counters.
type index struct {
	indexCounters
	permanent bool // from Config; never dropped
	used      time.Time
}

// indexCounters counts the queries that were answered from an index, or from the table.
type indexCounters struct{ lists, states, fetched, returned atomic.Uint64 }

const labelPrefix, fieldPrefix = "l:", "f:"

// storeIndex returns the store's definition of an index.
func (xs *indexes) storeIndex(name string) (store.Index, error) {
	if name == labelSetIndex {
		return store.LabelSetIndex(), nil
	}
	if label, ok := strings.CutPrefix(name, labelPrefix); ok {
		return store.LabelIndex(label), nil
	}
	field := strings.TrimPrefix(name, fieldPrefix)
	f := xs.cache.fields[field]
	if f == nil || len(f.paths) != 1 {
		return store.Index{}, fmt.Errorf("watchcache: no single field %s of %s to index", field, xs.cache.resource.Kind)
	}
	return store.FieldIndex(f.paths[0]), nil
}

// add builds an index in the store.
func (xs *indexes) add(name string, x *index) error {
	source, err := xs.storeIndex(name)
	if err == nil {
		err = xs.cache.store.AddIndex(name, source)
	}
	if err != nil {
		return fmt.Errorf("watchcache: index %s: %w", name, err)
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.byName[name] = x
	return nil
}

// get returns the index of this name, or nil if it is not built.
func (xs *indexes) get(name string) *index {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	return xs.byName[name]
}

// record records the result of a query plan: the numbers of fetched and of matching objects. watch
// says that the query was the initial state of a WATCH.
func (xs *indexes) record(p *queryPlan, s *selector, watch bool, fetched, returned int) {
	t := &xs.table
	if p.index != nil {
		t = &p.index.indexCounters
	}
	if watch {
		t.states.Add(1)
	} else {
		t.lists.Add(1)
	}
	t.fetched.Add(uint64(fetched))
	t.returned.Add(uint64(returned))
	if s.keyOnly() || len(p.state.keys) > 0 {
		return
	}
	now := time.Now()
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if p.index != nil {
		p.index.used = now
	}
	vain, objects := fetched-returned, p.state.sn.Len()
	if vain == 0 || objects < minToIndex {
		return
	}
	for _, l := range s.lookups() {
		if xs.byName[l.name] == nil && xs.charge(l.name, vain, now) >= buildAfter*objects && xs.hasRoom(now) {
			delete(xs.wanted, l.name)
			xs.building = true
			go xs.build(l.name)
		}
	}
}

// charge adds to the charges of an index that does not exist yet. vain is the amount: the number of
// objects that a query visited and that did not match. charge returns the sum of the index's
// charges. The caller holds xs.mu.
func (xs *indexes) charge(name string, vain int, now time.Time) int {
	if _, ok := xs.wanted[name]; now.Sub(xs.since) > idleAfter || !ok && len(xs.wanted) >= maxWanted {
		xs.wanted, xs.since = map[string]int{}, now
	}
	xs.wanted[name] += vain
	return xs.wanted[name]
}

// hasRoom reports whether another index may be built now. If there are maxIndexes indexes, or if
// they use too many bytes, hasRoom drops the index that has been idle for longest. It does not drop
// an index that was used within idleAfter. The caller holds xs.mu.
func (xs *indexes) hasRoom(now time.Time) bool {
	if xs.building || xs.cache.closing.Err() != nil {
		return false
	}
	n, bytes, idle := 0, int64(0), ""
	for name, x := range xs.byName {
		if x.permanent {
			continue
		}
		n, bytes = n+1, bytes+xs.cache.store.IndexBytes(name)
		if idle == "" || x.used.Before(xs.byName[idle].used) {
			idle = name
		}
	}
	if n < maxIndexes && bytes < max(minIndexBudget, xs.cache.store.Memory().Packed/4) {
		return true
	}
	if now.Sub(xs.byName[idle].used) < idleAfter {
		return false
	}
	delete(xs.byName, idle)
	xs.cache.store.DropIndex(idle)
	xs.dropped.Add(1)
	return true
}

// build builds an index. It runs in a separate goroutine, for at most one index at a time. If it
// fails, later queries charge the index again.
func (xs *indexes) build(name string) {
	err := xs.add(name, &index{used: time.Now()})
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if xs.building = false; err == nil {
		xs.built.Add(1)
	}
}

// stats returns the statistics of the table and of all indexes, sorted by name.
func (xs *indexes) stats() []IndexStats {
	out := []IndexStats{xs.table.stats("")}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(xs.byName)) {
		s := xs.byName[name].stats(name)
		s.Bytes = xs.cache.store.IndexBytes(name)
		out = append(out, s)
	}
	return out
}

func (t *indexCounters) stats(name string) IndexStats {
	return IndexStats{
		Name: name, Lists: t.lists.Load(), States: t.states.Load(), Fetched: t.fetched.Load(), Returned: t.returned.Load(),
	}
}
