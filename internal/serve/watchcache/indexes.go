package watchcache

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// Indexes are built on demand. The measure is objects visited in vain: they are charged to the
// index that would have avoided them. When the charge is buildAfter times what building costs, the
// index is built in the background, and what it then saves is credited to it. If there are too many
// indexes, one is dropped that saves less than another would. Charges and credits halve each
// halfLife. A flood of different selectors therefore builds no index that its walks have not paid
// for several times, and never more than maxIndexes.
const (
	maxIndexes = 8
	maxWanted  = 64 // indexes that are charged
	buildAfter = 3
	halfLife   = time.Minute
	minToIndex = 1000 // objects
	// minIndexBudget bounds the bytes of all indexes built on demand, and a quarter of the packed
	// objects if that is more.
	minIndexBudget = 4 << 20
)

// indexes holds the indexes that the cache has in its store, and the charges for those that it
// might build. It is safe for concurrent use.
type indexes struct {
	cache *Cache
	table indexCounters

	built, dropped atomic.Uint64

	mu       sync.Mutex
	byName   map[string]*index
	wanted   map[string]*decayingSum
	building bool
}

// index is an index in the store.
type index struct {
	indexCounters
	name      string
	permanent bool // from Config; never dropped
	saved
}

type saved struct{ decayingSum }

// indexCounters counts what was answered from an index, or from the table.
type indexCounters struct{ lists, states, fetched, returned atomic.Uint64 }

// decayingSum is a sum that halves each halfLife. The lock of indexes guards it.
type decayingSum struct {
	value  float64
	at     time.Time
	failed bool // the index could not be built
}

func (s *decayingSum) now(t time.Time) float64 {
	return s.value * math.Exp2(-float64(t.Sub(s.at))/float64(halfLife))
}

func (s *decayingSum) add(n int, t time.Time) float64 {
	s.value, s.at = s.now(t)+float64(n), t
	return s.value
}

const labelPrefix, fieldPrefix = "l:", "f:"

func labelIndexName(label string) string { return labelPrefix + label }
func fieldIndexName(field string) string { return fieldPrefix + field }

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

// addPermanent builds an index that is never dropped.
func (xs *indexes) addPermanent(name string) error {
	source, err := xs.storeIndex(name)
	if err == nil {
		err = xs.cache.store.AddIndex(name, source)
	}
	if err != nil {
		return fmt.Errorf("watchcache: index %s: %w", name, err)
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.byName[name] = &index{name: name, permanent: true}
	return nil
}

// get returns the index of this name, or nil.
func (xs *indexes) get(name string) *index {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	return xs.byName[name]
}

// record records the result of a plan: objects fetched, and objects that matched. watch says that
// it was the initial state of a WATCH.
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
		p.index.saved.add(max(p.state.sn.Len()-fetched, 0), now)
	}
	// A set costs less than an object, and nearly all sets are visited in vain.
	vain := fetched - returned + p.setsVisited
	if vain > 0 && p.state.sn.Len() >= minToIndex {
		for _, l := range s.lookups() {
			if xs.byName[l.name] == nil {
				xs.charge(l.name, vain, p.state.sn.Len(), now)
			}
		}
	}
}

// charge charges objects visited in vain to an index that does not exist. The caller holds the
// lock.
func (xs *indexes) charge(name string, waste, objects int, now time.Time) {
	w := xs.wanted[name]
	if w == nil {
		if len(xs.wanted) >= maxWanted {
			xs.evictWanted(now)
		}
		w = &decayingSum{at: now}
		xs.wanted[name] = w
	}
	sum := w.add(waste, now)
	if sum < buildAfter*float64(objects) || w.failed || xs.building || xs.cache.closing.Err() != nil || !xs.makeRoom(sum, now) {
		return
	}
	xs.building = true
	go xs.build(name)
}

// evictWanted drops the smallest charge. The caller holds the lock.
func (xs *indexes) evictWanted(now time.Time) {
	least, lowest := "", math.Inf(1)
	for name, w := range xs.wanted {
		if v := w.now(now); v < lowest {
			least, lowest = name, v
		}
	}
	delete(xs.wanted, least)
}

// makeRoom reports whether another index may be built. It drops the index that saves least if that
// is less than half of what the new one would save. The caller holds the lock.
func (xs *indexes) makeRoom(would float64, now time.Time) bool {
	var least *index
	bytes, n := int64(0), 0
	for _, x := range xs.byName {
		if x.permanent {
			continue
		}
		n++
		bytes += xs.cache.store.IndexBytes(x.name)
		if least == nil || x.saved.now(now) < least.saved.now(now) {
			least = x
		}
	}
	if n < maxIndexes && bytes < max(minIndexBudget, xs.cache.store.Memory().Packed/4) {
		return true
	}
	if least == nil || least.saved.now(now) > would/2 {
		return false
	}
	delete(xs.byName, least.name)
	xs.cache.store.DropIndex(least.name)
	xs.dropped.Add(1)
	return true
}

// build builds an index in a goroutine of its own, one at a time.
func (xs *indexes) build(name string) {
	source, err := xs.storeIndex(name)
	if err == nil {
		err = xs.cache.store.AddIndex(name, source)
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.building = false
	w := xs.wanted[name]
	if err != nil {
		if w != nil {
			w.failed = true // until it is evicted
		}
		return
	}
	x := &index{name: name}
	if w != nil {
		x.saved.decayingSum = *w // it begins with its charge as credit
	}
	delete(xs.wanted, name)
	xs.byName[name] = x
	xs.built.Add(1)
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
