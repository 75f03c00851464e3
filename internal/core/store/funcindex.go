package store

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// funcIndex is an index by a function. Queries keep it up to date, under its own lock. The store's
// and the log's locks are taken inside that.
type funcIndex struct {
	s    *Store
	name string
	fn   func(decoded any) ([]string, error)

	mu       sync.Mutex
	built    bool                  // and everything up to upTo is in it
	upTo     uint64                // revision of the newest snapshot that it was caught up with
	dirty    dirtyKeys             // what has changed since; guarded by the log's lock
	later    map[string]uint64     // what has changed after upTo
	entries  tree[indexKey, int32] // the number of each version in versions
	byKey    map[string]*funcEntry // by object key
	bytes    int64                 // of what is in byKey
	failed   map[string]funcFailure
	versions indexedVersions
	history  indexHistory
	derived  derivedValues // for the next query

	size atomic.Int64 // bytes of all but derived, as the last catchUp has left them
}

// funcFailure says why an object has no values.
type funcFailure struct {
	err       error
	undecoded bool // the function was not called
}

// funcEntry is what the function returned for one version.
type funcEntry struct {
	revision uint64
	values   []string
	number   int32 // of the version in versions
}

func (e *funcEntry) footprint() int64 {
	n := int64(96)
	for _, v := range e.values {
		n += 16 + int64(len(v))
	}
	return n
}

func newFuncIndex(s *Store, name string, fn func(any) ([]string, error)) *funcIndex {
	x := &funcIndex{s: s, name: name, fn: fn}
	x.dirty.letGo = x.versions.letGo
	return x
}

// appendBy appends the objects of sn under value, in key order.
func (x *funcIndex) appendBy(objects []*Object, sn *Snapshot, value string) ([]*Object, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(sn)
	if sn.revision < x.upTo {
		return x.appendOlder(objects, sn, value)
	}
	return x.append(objects, sn, value), x.err()
}

// appendNow appends the objects of sn under each of several values. If another query has moved the
// index beyond sn meanwhile, it takes a newer snapshot, for which the index need not look at all
// objects.
func (x *funcIndex) appendNow(objects []*Object, sn *Snapshot, values []string) ([]*Object, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.built && sn.revision < x.upTo {
		sn = x.s.Snapshot()
	}
	x.catchUp(sn)
	for _, value := range values {
		objects = x.append(objects, sn, value)
	}
	return objects, x.err()
}

// append appends the objects of sn under value. The index has been caught up with sn.
func (x *funcIndex) append(objects []*Object, sn *Snapshot, value string) []*Object {
	versions := x.versions.versions()
	x.entries.ascend(indexKey{value: value}, func(k indexKey, number int32) bool {
		if k.value != value {
			return false
		}
		o := versions[number]
		if o == nil {
			o, _ = sn.table.get(k.key)
			x.versions.set(number, o)
		}
		objects = append(objects, o)
		return true
	})
	return objects
}

func (x *funcIndex) distinct(sn *Snapshot) (values []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(sn)
	if sn.revision < x.upTo {
		_ = x.eachOlder(sn, func(_ *Object, of []string) { values = append(values, of...) })
		slices.Sort(values)
		return slices.Compact(values)
	}
	eachValue(&x.entries, func(v string) bool {
		values = append(values, v)
		return true
	})
	return values
}

// err returns an *IndexError with the first object for which the function failed, or nil. Objects
// that could not be decoded do not count.
func (x *funcIndex) err() error {
	if len(x.failed) == 0 {
		return nil
	}
	first, n := "", 0
	for key, f := range x.failed {
		if f.undecoded {
			continue
		}
		if n++; n == 1 || key < first {
			first = key
		}
	}
	if n == 0 {
		return nil
	}
	return &IndexError{Index: x.name, Key: first, More: n - 1, Err: x.failed[first].err}
}

// catchUp moves the index on to sn, if sn is newer. If a decoder that panics, or a function that
// ends its goroutine, interrupts it, the next query builds the index again.
func (x *funcIndex) catchUp(sn *Snapshot) {
	if x.built && sn.revision <= x.upTo {
		return
	}
	rebuild := !x.built
	x.built = false
	var revs map[string]uint64
	if !rebuild {
		revs, rebuild = x.s.log.take(&x.dirty)
	}
	if rebuild {
		x.build(sn)
		x.history.reset(sn.revision)
	} else {
		x.upTo = sn.revision
		later := x.later
		x.later = nil
		x.follow(sn, later)
		x.follow(sn, revs)
	}
	x.derived.reach(sn.revision)
	x.size.Store(x.entries.footprint(40) + x.versions.footprint() + x.bytes)
	x.built = true
	if checking {
		x.check()
	}
}

func (x *funcIndex) follow(sn *Snapshot, revs map[string]uint64) {
	var changed []*Object
	for key, rev := range revs {
		if rev > sn.revision {
			if x.later == nil {
				x.later = make(map[string]uint64)
			}
			x.later[key] = rev
		}
		o, ok := sn.table.get(key)
		switch was := x.byKey[key]; {
		case !ok:
			x.history.add(key, sn.revision)
			x.remove(key)
		case was != nil && was.revision == o.revision:
			x.versions.set(was.number, o) // it may have been replaced since sn
		default:
			x.history.add(key, sn.revision)
			if values, ok := x.derived.take(o); ok {
				x.change(o, values, funcFailure{})
			} else {
				changed = append(changed, o)
			}
		}
	}
	decodeEach(changed, func(o *Object, decoded any, err error) {
		values, fail := x.callWith(decoded, err)
		x.change(o, values, fail)
	})
}

// differences returns the keys whose versions differ between the snapshots.
func differences(a, b *Snapshot) map[string]uint64 {
	if a.revision == b.revision {
		return nil
	}
	revs := make(map[string]uint64)
	for o := range a.All() {
		if other, _ := b.Get(o.key); other != o {
			revs[o.key] = b.revision
		}
	}
	for o := range b.All() {
		if _, ok := a.Get(o.key); !ok {
			revs[o.key] = b.revision
		}
	}
	return revs
}

// change replaces the values of the key of o by those of o.
func (x *funcIndex) change(o *Object, values []string, fail funcFailure) {
	was := x.byKey[o.key]
	switch {
	case fail.err != nil:
		x.remove(o.key)
		x.failed[o.key] = fail
		return
	case was != nil && slices.Equal(was.values, values):
		was.revision = o.revision
		x.versions.set(was.number, o)
		return
	}
	x.remove(o.key)
	e := x.learn(o)
	e.values = make([]string, 0, len(values))
	for _, v := range values {
		if existing, ok := firstValue(&x.entries, v, func(s string) bool { return s == v }); ok {
			v = existing
		} else {
			v = strings.Clone(v) // it may be a part of a longer one
		}
		x.entries.set(indexKey{v, o.key}, e.number)
		e.values = append(e.values, v)
	}
	x.bytes += e.footprint()
}

// learn adds an entry for an object that has none.
func (x *funcIndex) learn(o *Object) *funcEntry {
	e := &funcEntry{revision: o.revision, number: x.versions.add(o)}
	x.byKey[o.key] = e
	return e
}

// remove removes the values, or the failure, of a key.
func (x *funcIndex) remove(key string) {
	delete(x.failed, key)
	was := x.byKey[key]
	if was == nil {
		return
	}
	for _, v := range was.values {
		x.entries.delete(indexKey{v, key})
	}
	x.versions.remove(was.number)
	x.bytes -= was.footprint()
	delete(x.byKey, key)
}

// call calls the function for a version.
func (x *funcIndex) call(o *Object) (values []string, fail funcFailure) {
	return x.callWith(o.DecodeOnce())
}

// callWith calls the function with a decoded value, and turns a panic into an error. If the object
// could not be decoded, as err says, it has no values. A caller that reads that object gets the
// error; queries go on with the others.
func (x *funcIndex) callWith(decoded any, err error) (values []string, fail funcFailure) {
	if err != nil {
		return nil, funcFailure{err, true}
	}
	x.derived.calls.Lock()
	defer x.derived.calls.Unlock()
	return x.callLocked(decoded)
}

// callLocked calls the function with a decoded value, and turns a panic into an error. The lock of
// calls is held.
func (x *funcIndex) callLocked(decoded any) (values []string, fail funcFailure) {
	defer func() {
		if p := recover(); p != nil {
			values, fail = nil, funcFailure{err: fmt.Errorf("panic: %v", p)}
		}
	}()
	values, err := x.fn(decoded)
	return values, funcFailure{err: err}
}

// footprint estimates the memory, as the last query has left it. It does not wait for a query,
// which may wait for the function.
func (x *funcIndex) footprint() int64 { return x.size.Load() + x.derived.footprint() }

// build derives everything from sn, and collects what has changed since sn.
func (x *funcIndex) build(sn *Snapshot) {
	x.s.mu.Lock()
	x.s.log.collect(&x.dirty)
	current := x.s.snapshotLocked()
	x.s.mu.Unlock()
	x.upTo, x.later = sn.revision, differences(sn, current)
	x.byKey, x.bytes, x.failed = make(map[string]*funcEntry, sn.Len()), 0, make(map[string]funcFailure)
	x.versions.reset(sn.Len())
	made := funcValues{}
	take := func(o *Object, values []string) {
		e := x.learn(o)
		e.values = make([]string, 0, len(values))
		for _, v := range values {
			e.values = append(e.values, made.add(v, o.key, e.number))
		}
		x.bytes += e.footprint()
	}
	var rest []*Object
	for o := range sn.All() {
		if values, ok := x.derived.take(o); ok {
			take(o, values)
		} else {
			rest = append(rest, o)
		}
	}
	decodeEach(rest, func(o *Object, decoded any, err error) {
		values, fail := x.callWith(decoded, err)
		if fail.err != nil {
			x.failed[o.key] = fail
			return
		}
		take(o, values)
	})
	x.entries = made.tree()
}

// appendOlder appends the objects under value of a snapshot that is older than the index, in key
// order. The index does not go back. So appendOlder calls the function for the versions that have
// changed or gone since, and where these are not known any more looks at all objects.
func (x *funcIndex) appendOlder(objects []*Object, sn *Snapshot, value string) ([]*Object, error) {
	begin := len(objects)
	visit := func(o *Object, values []string) {
		if slices.Contains(values, value) {
			objects = append(objects, o)
		}
	}
	moved, ok := x.history.after(sn.revision)
	if !ok {
		err := x.eachOlder(sn, visit)
		return objects, err
	}
	x.entries.ascend(indexKey{value: value}, func(k indexKey, _ int32) bool {
		if k.value != value {
			return false
		}
		if _, ok := slices.BinarySearch(moved, k.key); !ok {
			o, _ := sn.table.get(k.key)
			objects = append(objects, o)
		}
		return true
	})
	var fails olderFailures
	for _, key := range moved {
		if o, ok := sn.table.get(key); ok {
			x.visitOlder(o, visit, &fails)
		}
	}
	for key, f := range x.failed { // as it did when the snapshot was taken, unless it is among moved
		if _, ok := slices.BinarySearch(moved, key); !ok && !f.undecoded {
			fails.add(key, f.err)
		}
	}
	slices.SortFunc(objects[begin:], func(a, b *Object) int { return strings.Compare(a.key, b.key) })
	return objects, fails.err(x)
}

// eachOlder calls visit for all objects of a snapshot that is older than the index, in key order,
// with their values. It returns an *IndexError if the function failed for some of them.
func (x *funcIndex) eachOlder(sn *Snapshot, visit func(o *Object, values []string)) error {
	var fails olderFailures
	for o := range sn.All() {
		x.visitOlder(o, visit, &fails)
	}
	return fails.err(x)
}

func (x *funcIndex) visitOlder(o *Object, visit func(o *Object, values []string), fails *olderFailures) {
	if e := x.byKey[o.key]; e != nil && e.revision == o.revision {
		visit(o, e.values)
		return
	}
	switch values, fail := x.call(o); {
	case fail.err == nil:
		visit(o, values)
	case !fail.undecoded:
		fails.add(o.key, fail.err)
	}
}
