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

	"github.com/weirproject/weir/internal/store"
)

// Indexes are made on demand, and the measure is objects looked at in vain. What is wasted for want of an index is charged to it; when
// that is buildAfter times what making it costs, it is made, beside the running requests. What it then saves is credited to it. If there
// are too many, one that saves less than another would gives way. Both fade by half in each halfLife. So a flood of different selectors
// makes no index that is not paid for many times over by the walks that it has caused, and no more than maxIndexes at any time.
const (
	maxIndexes  = 8
	maxWanted   = 64 // that are charged
	buildAfter  = 3
	halfLife    = time.Minute
	minToIndex  = 1000    // objects
	leastBudget = 4 << 20 // bytes of all indexes made on demand; more if the objects take more than four times that
)

// indexes are those that a cache has in its store, and those that it might make. Safe for concurrent use.
type indexes struct {
	cache *Cache
	table tally

	built, dropped atomic.Uint64

	mu       sync.Mutex
	held     map[string]*index
	wanted   map[string]*score
	building bool
}

// index is one of the store's.
type index struct {
	tally
	name string
	kept bool // was asked for in Config: is not dropped
	saved
}

type saved struct{ score }

// tally counts what was answered from an index, or from the table.
type tally struct{ lists, states, fetched, returned atomic.Uint64 }

// score is a sum that fades. Guarded by the indexes' lock.
type score struct {
	value float64
	at    time.Time
	never bool // an index that could not be made
}

func (s *score) now(t time.Time) float64 {
	return s.value * math.Exp2(-float64(t.Sub(s.at))/float64(halfLife))
}

func (s *score) add(n int, t time.Time) float64 {
	s.value, s.at = s.now(t)+float64(n), t
	return s.value
}

const labelPrefix, fieldPrefix = "l:", "f:"

func labelIndexName(label string) string { return labelPrefix + label }
func fieldIndexName(field string) string { return fieldPrefix + field }

// source is what the store needs to make an index.
func (xs *indexes) source(name string) (store.Index, error) {
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

// keep makes an index that stays.
func (xs *indexes) keep(name string) error {
	source, err := xs.source(name)
	if err == nil {
		err = xs.cache.store.AddIndex(name, source)
	}
	if err != nil {
		return fmt.Errorf("watchcache: index %s: %w", name, err)
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.held[name] = &index{name: name, kept: true}
	return nil
}

// get is the index of this name; nil if there is none.
func (xs *indexes) get(name string) *index {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	return xs.held[name]
}

// used tells what a plan has come to: so many objects were looked at, and so many of them were wanted. watch: it was the state that a
// WATCH begins with.
func (xs *indexes) used(p *plan, s *selector, watch bool, fetched, returned int) {
	t := &xs.table
	if p.index != nil {
		t = &p.index.tally
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
	vain := fetched - returned + p.sets // a set costs less than an object to look at, and nearly all are looked at in vain
	if vain > 0 && p.state.sn.Len() >= minToIndex {
		for _, l := range s.lookups() {
			if xs.held[l.name] == nil {
				xs.charge(l.name, vain, p.state.sn.Len(), now)
			}
		}
	}
}

// charge is told what was wasted for want of an index. The lock is held.
func (xs *indexes) charge(name string, waste, objects int, now time.Time) {
	w := xs.wanted[name]
	if w == nil {
		if len(xs.wanted) >= maxWanted {
			xs.forget(now)
		}
		w = &score{at: now}
		xs.wanted[name] = w
	}
	sum := w.add(waste, now)
	if sum < buildAfter*float64(objects) || w.never || xs.building || xs.cache.closing.Err() != nil || !xs.room(sum, now) {
		return
	}
	xs.building = true
	go xs.build(name)
}

// forget makes room for another that is wanted. The lock is held.
func (xs *indexes) forget(now time.Time) {
	least, lowest := "", math.Inf(1)
	for name, w := range xs.wanted {
		if v := w.now(now); v < lowest {
			least, lowest = name, v
		}
	}
	delete(xs.wanted, least)
}

// room says whether there is room for another index, or one that saves less than half of what this one would. That is dropped. The lock
// is held.
func (xs *indexes) room(would float64, now time.Time) bool {
	var least *index
	bytes, n := int64(0), 0
	for _, x := range xs.held {
		if x.kept {
			continue
		}
		n++
		bytes += xs.cache.store.IndexBytes(x.name)
		if least == nil || x.saved.now(now) < least.saved.now(now) {
			least = x
		}
	}
	if n < maxIndexes && bytes < max(leastBudget, xs.cache.store.Memory().Packed/4) {
		return true
	}
	if least == nil || least.saved.now(now) > would/2 {
		return false
	}
	delete(xs.held, least.name)
	xs.cache.store.DropIndex(least.name)
	xs.dropped.Add(1)
	return true
}

// build makes an index, in a goroutine of its own that ends with that. There is one at a time.
func (xs *indexes) build(name string) {
	source, err := xs.source(name)
	if err == nil {
		err = xs.cache.store.AddIndex(name, source)
	}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	xs.building = false
	w := xs.wanted[name]
	if err != nil {
		if w != nil {
			w.never = true // until it is forgotten
		}
		return
	}
	x := &index{name: name}
	if w != nil {
		x.saved.score = *w // it begins with the credit of what it would have saved
	}
	delete(xs.wanted, name)
	xs.held[name] = x
	xs.built.Add(1)
}

// stats tells of the table and of all indexes, in the order of their names.
func (xs *indexes) stats() []IndexStats {
	out := []IndexStats{xs.table.stats("")}
	xs.mu.Lock()
	defer xs.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(xs.held)) {
		s := xs.held[name].stats(name)
		s.Bytes = xs.cache.store.IndexBytes(name)
		out = append(out, s)
	}
	return out
}

func (t *tally) stats(name string) IndexStats {
	return IndexStats{
		Name: name, Lists: t.lists.Load(), States: t.states.Load(), Fetched: t.fetched.Load(), Returned: t.returned.Load(),
	}
}
