package store

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// funcIndex is an index by a function. Queries update the index, under the index's lock. A
// goroutine that also needs the store's or the log's lock takes it after the index's lock.
type funcIndex struct {
	s  *Store
	fn func(decoded any) ([]string, error)

	mu         sync.Mutex
	valueIndex                      // of the versions at revision upTo
	built      bool                 // the index contains all objects at revision upTo
	upTo       uint64               // revision of the newest snapshot that the index has reached
	dirty      dirtyKeys            // keys changed since the last catchUp; guarded by the log's lock
	later      map[string]uint64    // the keys that changed after upTo, but before the last catchUp
	byKey      map[string]funcEntry // by object key
	entryBytes int64                // the bytes of byKey
	failed     map[string]error     // errors of the function, by object key
	found      foundObjects

	calls   sync.Mutex // held while the function is called; taken after mu
	derived derivedValues

	size atomic.Int64 // bytes of all but derived, after the last catchUp
}

// funcEntry contains the result of the function for one version.
type funcEntry struct {
	revision uint64
	values   []string // none if the function failed, or the version cannot be decoded
}

func (e funcEntry) footprint() int64 {
	n := int64(96)
	for _, v := range e.values {
		n += 16 + int64(len(v))
	}
	return n
}

// foundObjects caches the objects that queries have found under a value, so that the next query
// need not look them up in the table. When too many versions have been replaced, a writer drops the
// whole cache, because it does not know which of these versions are cached. So the cache keeps no
// more replaced versions in memory than dirtyKeys allows. The index's lock guards the map.
type foundObjects struct {
	byValue atomic.Pointer[map[string][]*Object]
}

func (f *foundObjects) drop() { f.byValue.Store(nil) }

func (f *foundObjects) get(value string) (objects []*Object, ok bool) {
	if m := f.byValue.Load(); m != nil {
		objects, ok = (*m)[value]
	}
	return objects, ok
}

// put caches the objects under a value. If one of the objects is no longer in the table, because
// the snapshot is old, put caches none of them. The reason is that dirtyKeys has already counted
// the replacement of that version, so the cache might keep the version in memory for too long.
func (f *foundObjects) put(value string, objects []*Object) {
	if slices.ContainsFunc(objects, func(o *Object) bool { return !o.live() }) {
		return
	}
	m := f.byValue.Load()
	if m == nil {
		m = &map[string][]*Object{}
		f.byValue.Store(m)
	}
	(*m)[value] = slices.Clone(objects)
}

func (f *foundObjects) forget(values []string) {
	if m := f.byValue.Load(); m != nil {
		for _, v := range values {
			delete(*m, v)
		}
	}
}

func newFuncIndex(s *Store, name string, fn func(any) ([]string, error)) *funcIndex {
	x := &funcIndex{s: s, fn: fn, valueIndex: newValueIndex(name)}
	x.dirty.letGo = x.found.drop
	return x
}

// appendBy appends the objects of sn under value, in key order. The index does not move back. For a
// snapshot that is older than the index, appendBy reads all objects of the snapshot. It calls the
// function for the objects that have changed since the snapshot.
func (x *funcIndex) appendBy(objects []*Object, sn *Snapshot, value string) ([]*Object, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catchUp(sn); sn.revision == x.upTo {
		return x.append(objects, sn, value), failure(x.name, x.failed)
	}
	err := x.eachOlder(sn, func(o *Object, values []string) {
		if slices.Contains(values, value) {
			objects = append(objects, o)
		}
	})
	return objects, err
}

// appendNow appends the objects of sn under each of several values. If another query has moved the
// index beyond sn, it uses a newer snapshot instead.
func (x *funcIndex) appendNow(objects []*Object, sn *Snapshot, values []string) ([]*Object, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.catchUp(sn); sn.revision < x.upTo; x.catchUp(sn) {
		sn = x.s.Snapshot()
	}
	for _, value := range values {
		objects = x.append(objects, sn, value)
	}
	return objects, failure(x.name, x.failed)
}

// append appends the objects of sn under value. The index must be at sn's revision.
func (x *funcIndex) append(objects []*Object, sn *Snapshot, value string) []*Object {
	if found, ok := x.found.get(value); ok {
		return append(objects, found...)
	}
	begin := len(objects)
	x.each(value, "", func(key string) bool {
		o, _ := sn.table.get(key)
		objects = append(objects, o)
		return true
	})
	if len(objects) > begin {
		x.found.put(value, objects[begin:])
	}
	return objects
}

func (x *funcIndex) distinct(sn *Snapshot) (values []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catchUp(sn); sn.revision == x.upTo {
		x.eachValue(func(v string) bool {
			values = append(values, v)
			return true
		})
		return values
	}
	_ = x.eachOlder(sn, func(_ *Object, of []string) { values = append(values, of...) })
	slices.Sort(values)
	return slices.Compact(values)
}

// eachOlder calls visit for all objects of a snapshot that is older than the index, in key order,
// with their values. If the function failed for one or more of them, eachOlder returns an
// *IndexError.
func (x *funcIndex) eachOlder(sn *Snapshot, visit func(o *Object, values []string)) error {
	failed := make(map[string]error)
	for o := range sn.All() {
		e, err := x.byKey[o.key], x.failed[o.key]
		if e.revision != o.revision {
			e.values, err = x.call(o.decodeOnce())
		}
		if visit(o, e.values); err != nil {
			failed[o.key] = err
		}
	}
	return failure(x.name, failed)
}

// catchUp moves the index to sn if sn is newer. If the index must be built, catchUp builds it from
// a new snapshot, which may be newer than sn. A panic of the decoder may interrupt catchUp, and so
// may a function that ends its goroutine. The next query then builds the index again.
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
		sn = x.begin()
		x.evaluate(sn.All())
	} else {
		later := x.later
		x.later = nil
		x.follow(sn, later)
		x.follow(sn, revs)
	}
	x.upTo = sn.revision
	x.derived.reach(sn.revision)
	x.size.Store(x.valueIndex.footprint() + x.entryBytes)
	x.built = true
	if checking {
		x.check()
	}
}

// begin empties the index, and starts to collect the changes after the snapshot that it returns.
func (x *funcIndex) begin() *Snapshot {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.log.collect(&x.dirty)
	x.valueIndex, x.later, x.entryBytes = newValueIndex(x.name), nil, 0
	x.byKey, x.failed = make(map[string]funcEntry, x.s.table.count), make(map[string]error)
	x.found.drop()
	return x.s.snapshotLocked()
}

// follow moves the index to sn for the changed keys. revs contains the revision of each key's last
// change. If that change is newer than sn, follow records the key for the next catchUp.
func (x *funcIndex) follow(sn *Snapshot, revs map[string]uint64) {
	var changed []*Object
	for key, rev := range revs {
		if rev > sn.revision {
			if x.later == nil {
				x.later = make(map[string]uint64)
			}
			x.later[key] = rev
		}
		was := x.byKey[key]
		x.found.forget(was.values) // the found objects may contain replaced versions
		if o, ok := sn.table.get(key); !ok {
			x.removeKey(key)
		} else if was.revision != o.revision {
			changed = append(changed, o)
		}
	}
	x.evaluate(slices.Values(changed))
}

// evaluate adds the values of versions to the index. It calls the function for versions without
// derived values.
func (x *funcIndex) evaluate(versions func(yield func(*Object) bool)) {
	var rest []*Object
	for o := range versions {
		if values, ok := x.derived.take(o); ok {
			x.set(o, values, nil)
		} else {
			rest = append(rest, o)
		}
	}
	decodeEach(rest, func(o *Object, decoded any, err error) {
		values, err := x.call(decoded, err)
		x.set(o, values, err)
	})
}

// set gives the key of o new values in the index, and removes its old ones. If the function failed
// with err, the key gets no values.
func (x *funcIndex) set(o *Object, values []string, err error) {
	was := x.byKey[o.key]
	if err != nil {
		values = nil
	}
	e := funcEntry{o.revision, was.values}
	if !slices.Equal(was.values, values) {
		e.values = make([]string, 0, len(values))
		for _, v := range values {
			e.values = append(e.values, x.add(v, o.key))
		}
		for _, v := range was.values {
			if !slices.Contains(values, v) {
				x.remove(v, o.key)
			}
		}
		x.found.forget(e.values)
	}
	x.forget(o.key, was)
	if err != nil {
		x.failed[o.key] = err
	}
	x.byKey[o.key] = e
	x.entryBytes += e.footprint()
}

// removeKey removes a key and its values.
func (x *funcIndex) removeKey(key string) {
	was := x.byKey[key]
	for _, v := range was.values {
		x.remove(v, key)
	}
	x.forget(key, was)
}

// forget removes the entry of a key, if there is one.
func (x *funcIndex) forget(key string, was funcEntry) {
	delete(x.failed, key)
	if was.revision > 0 {
		x.entryBytes -= was.footprint()
		delete(x.byKey, key)
	}
}

// call calls the function with a decoded value. If the object could not be decoded, undecoded is
// the error, and the object has no values. call does not return undecoded, so that queries return
// the other objects. A caller that reads the object itself receives that error.
func (x *funcIndex) call(decoded any, undecoded error) (values []string, err error) {
	if undecoded != nil {
		return nil, nil
	}
	x.calls.Lock()
	defer x.calls.Unlock()
	return x.callLocked(decoded)
}

// callLocked calls the function, and turns a panic into an error. The caller holds x.calls.
func (x *funcIndex) callLocked(decoded any) (values []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			values, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return x.fn(decoded)
}

// footprint estimates the memory after the last query. It does not wait for a running query, which
// may wait for the function.
func (x *funcIndex) footprint() int64 { return x.size.Load() + x.derived.footprint() }

// failure returns an *IndexError with the first object for which the function failed, or nil.
func failure(index string, failed map[string]error) error {
	if len(failed) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(failed)))
	return &IndexError{Index: index, Key: first, More: len(failed) - 1, Err: failed[first]}
}
