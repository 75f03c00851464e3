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
	byName   map[string]*index // maxIndexes and the permanent ones are built, maxWanted are not
	building bool
}

// index is an index in the store, or one that might be built. The lock of indexes guards it, except
// for the counters.
type index struct {
	indexCounters
	name      string
	permanent bool // from Config; never dropped
	built     bool // it is in the store
	failed    bool // it could not be built; true until it is evicted
	// worth is the credit of an index that was built, and the charge of another. It is a sum that
	// halves each halfLife, at the time at.
	worth float64
	at    time.Time
}

// indexCounters counts what was answered from an index, or from the table.
type indexCounters struct{ lists, states, fetched, returned atomic.Uint64 }

func (x *index) worthAt(t time.Time) float64 {
	return x.worth * math.Exp2(-float64(t.Sub(x.at))/float64(halfLife))
}

func (x *index) addWorth(n int, t time.Time) { x.worth, x.at = x.worthAt(t)+float64(n), t }

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

func (xs *indexes) addToStore(name string) error {
	source, err := xs.storeIndex(name)
	if err == nil {
		err = xs.cache.store.AddIndex(name, source)
	}
	if err != nil {
		return fmt.Errorf("watchcache: index %s: %w", name, err)
	}
	return nil
}

// addPermanent builds an index that is never dropped.
func (xs *indexes) addPermanent(name string) error {
	if err := xs.addToStore(name); err != nil {
		return err
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.byName[name] = &index{name: name, permanent: true, built: true}
	return nil
}

// get returns the index of this name, or nil if it is not built.
func (xs *indexes) get(name string) *index {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	if x := xs.byName[name]; x != nil && x.built {
		return x
	}
	return nil
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
		p.index.addWorth(max(p.state.sn.Len()-fetched, 0), now)
	}
	// A set costs less than an object, and nearly all sets are visited in vain.
	vain := fetched - returned + p.setsVisited
	if vain > 0 && p.state.sn.Len() >= minToIndex {
		for _, l := range s.lookups() {
			if x := xs.byName[l.name]; x == nil || !x.built {
				xs.charge(l.name, vain, p.state.sn.Len(), now)
			}
		}
	}
}

// charge charges objects visited in vain to an index that does not exist. The caller holds the
// lock.
func (xs *indexes) charge(name string, waste, objects int, now time.Time) {
	x := xs.byName[name]
	if x == nil {
		if n, least := xs.least(false, now); n >= maxWanted {
			delete(xs.byName, least.name)
		}
		x = &index{name: name, at: now}
		xs.byName[name] = x
	}
	x.addWorth(waste, now)
	if x.worth < buildAfter*float64(objects) || x.failed || xs.building || xs.cache.closing.Err() != nil || !xs.makeRoom(x.worth, now) {
		return
	}
	xs.building = true
	go xs.build(x)
}

// least returns how many indexes are built on demand, or are not, and the one that is worth least.
// The caller holds the lock.
func (xs *indexes) least(built bool, now time.Time) (n int, least *index) {
	for _, x := range xs.byName {
		if x.permanent || x.built != built {
			continue
		}
		if n++; least == nil || x.worthAt(now) < least.worthAt(now) {
			least = x
		}
	}
	return n, least
}

// makeRoom reports whether another index may be built. It drops the index that saves least if that
// is less than half of what the new one would save. The caller holds the lock.
func (xs *indexes) makeRoom(would float64, now time.Time) bool {
	bytes := int64(0)
	for _, x := range xs.byName {
		if x.built && !x.permanent {
			bytes += xs.cache.store.IndexBytes(x.name)
		}
	}
	n, least := xs.least(true, now)
	if n < maxIndexes && bytes < max(minIndexBudget, xs.cache.store.Memory().Packed/4) {
		return true
	}
	if least == nil || least.worthAt(now) > would/2 {
		return false
	}
	delete(xs.byName, least.name)
	xs.cache.store.DropIndex(least.name)
	xs.dropped.Add(1)
	return true
}

// build builds an index in a goroutine of its own, one at a time. The charge becomes the first
// credit.
func (xs *indexes) build(x *index) {
	err := xs.addToStore(x.name)
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.building = false
	if x.failed = err != nil; x.failed {
		return
	}
	x.built = true
	xs.byName[x.name] = x // it may have been evicted
	xs.built.Add(1)
}

// stats returns the statistics of the table and of all indexes, sorted by name.
func (xs *indexes) stats() []IndexStats {
	out := []IndexStats{xs.table.stats("")}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(xs.byName)) {
		if !xs.byName[name].built {
			continue
		}
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
