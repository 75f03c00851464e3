package store

import (
	"fmt"
	"sync/atomic"
	"weak"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/views"
)

// decodedEntry is an object's decoded value. At first only a weak pointer refers to the value. Then
// the value stays in memory only as long as a caller uses it. If the value is read again soon after
// the first read, a strong pointer also refers to the value. The strong pointer is dropped when the
// value is idle or evicted; see decodedCache.
type decodedEntry struct {
	strong atomic.Pointer[decodedBox]
	weak   weakValue
	bytes  int64         // estimate
	used   atomic.Uint32 // used… bits; each read sets all of them

	// Guarded by the cache's lock.
	owner *Object // nil: the cache does not track the entry
	pos   int32   // in the cache's entries
	age   int32   // sweeps since the last read
}

// Each read sets all three bits. The sweep of idle entries clears usedSinceSweep, and the hand of
// CLOCK clears usedSinceHand.
const (
	usedSinceSweep = 1 << iota
	usedSinceHand
	usedEver
	usedNow = usedSinceSweep | usedSinceHand | usedEver
)

// touch records a read, and reports whether the value was read before. d may be nil.
func (d *decodedEntry) touch() (again bool) {
	if d == nil {
		return false
	}
	used := d.used.Load()
	if used != usedNow {
		d.used.Store(usedNow)
	}
	return used != 0
}

// decodedBox contains a decoded value, so that a pointer can refer to a value that is not a
// pointer.
type decodedBox struct{ value any }

// load returns the decoded value if it exists, and whether the cache refers to it strongly. d may
// be nil.
func (d *decodedEntry) load() (box *decodedBox, strongly bool) {
	if d == nil {
		return nil, false
	}
	if box = d.strong.Load(); box != nil {
		return box, true
	}
	return d.weak.get(), false
}

// weakValue is a weak pointer to the result of Config.Decode. If the result is a pointer, weakValue
// refers weakly to the pointer's target. So all callers receive the same decoded object as long as
// one of them uses it. If the result has no target, for example because it is nil or no pointer,
// weakValue refers weakly to the box.
type weakValue struct {
	value views.WeakValue
	box   weak.Pointer[decodedBox]
}

func makeWeak(box *decodedBox) weakValue {
	if value, ok := views.MakeWeakValue(box.value); ok {
		return weakValue{value: value}
	}
	return weakValue{box: weak.Make(box)}
}

// get returns the value in a box, or nil if the garbage collector has freed it.
func (w weakValue) get() *decodedBox {
	if value := w.value.Value(); value != nil {
		return &decodedBox{value: value}
	}
	return w.box.Value()
}

// alive reports whether the garbage collector has not freed the value yet.
func (w weakValue) alive() bool { return w.value.Alive() || w.box.Value() != nil }

// decodedFactor is the estimated ratio of a decoded object's memory to its raw size. The measured
// ratio is 3.0 for pods that are decoded from protobuf to typed structs, and 3.1 for pods that are
// decoded from JSON to unstructured objects.
const decodedFactor = 3

func newDecodedEntry(box *decodedBox, bytes int64) *decodedEntry {
	return &decodedEntry{weak: makeWeak(box), bytes: bytes}
}

// decodedBytes estimates the memory of the decoded value.
func (o *Object) decodedBytes() int64 { return decodedFactor * int64(o.size) }

// Decoded returns the decoded value, as returned by Config.Decode. All callers share it: copy it
// before you modify it. Decoded is safe for concurrent use.
//
// The value stays in memory as long as a caller uses it. If a value is read twice within
// Config.DecodedIdle, the store keeps the value. It drops the value when the value has not been
// read for DecodedIdle, or because of the budget. The error is ErrNoDecoder, or the error of
// Config.Decode with the object's key.
func (o *Object) Decoded() (any, error) {
	c := o.layout.cache
	d := o.decoded.Load()
	box, strongly := d.load()
	again := d.touch()
	if box != nil {
		c.hits.Add(1)
	} else {
		value, err := o.decodeBy(o.layout.decode)
		if err != nil {
			return nil, err
		}
		c.misses.Add(1)
		box = c.publish(o, &decodedBox{value})
		d = o.decoded.Load()
		d.touch()
	}
	if again && !strongly && d != nil {
		c.hold(o, d, box)
	}
	return box.value, nil
}

// decodeBy returns the new value that decode returns for the object's bytes.
func (o *Object) decodeBy(decode decodeFunc) (value any, err error) {
	if decode == nil {
		return nil, ErrNoDecoder
	}
	err = o.withRaw(func(raw []byte) error {
		value, err = decode(raw, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.key, err)
	}
	return value, nil
}

// decodeOnce returns the decoded value for a caller that needs it only once. If no decoded value
// exists, it decodes a new one for this caller alone. It does not cache the new value, and the call
// does not change how long the cache keeps an existing value. The errors are those of Decoded.
func (o *Object) decodeOnce() (any, error) {
	if box := o.existing(); box != nil {
		return box.value, nil
	}
	value, err := o.decodeBy(o.layout.decode)
	if err == nil {
		o.layout.cache.misses.Add(1)
	}
	return value, err
}

// existing returns the decoded value if it exists now, and nil otherwise. The call does not change
// how long the cache keeps the value. o may be nil.
func (o *Object) existing() *decodedBox {
	if o == nil {
		return nil
	}
	box, _ := o.decoded.Load().load()
	if box != nil {
		o.layout.cache.hits.Add(1)
	}
	return box
}

// DecodeCopy decodes the object's bytes with Config.DecodeCopy into a new value, which the caller
// may modify. If a caller has wrongly modified the shared value, the new value does not have that
// modification. Do not call DecodeCopy for a version that is stored as a value (see PutValue),
// because it has no bytes. The errors are those of Decoded.
func (o *Object) DecodeCopy() (any, error) { return o.decodeBy(o.layout.decodeCopy) }

// changeValues are the decoded values of a change's versions. The log refers to them so that all
// handlers receive the same values.
type changeValues struct {
	was, is *decodedBox
	bytes   int64 // estimate
}

// Values returns the decoded values of a change's versions for a handler. If Old or New is nil, its
// value is nil. Handlers and readers share the values: copy a value before you modify it.
//
// The first handler decodes the values that do not exist yet, both versions together if possible.
// If there is room (see Config.LogBytes) and Config.KeepLog is not set, the log keeps the values
// until the last handler has passed the change. So the other handlers receive the same values. At
// the object's next change, the new value of this change becomes the old value, unless the garbage
// collector has freed it. A call of Values does not change how long the cache keeps a value. The
// errors are those of Decoded. Values is safe for concurrent use.
func (s *Store) Values(ch *Change) (was, is any, err error) {
	if ch.Old != nil && ch.Old == ch.New { // a resync
		_, is, err = s.Values(&Change{Revision: ch.Revision, New: ch.New})
		return is, is, err
	}
	old, fresh := ch.Old.existing(), ch.New.existing()
	needsOld, needsNew := ch.Old != nil && old == nil, ch.New != nil && fresh == nil
	if needsOld || needsNew {
		if old, fresh, err = s.decodeChange(ch, old, fresh); err != nil {
			return nil, nil, err
		}
		handlers := s.log.handlers.Load()
		if needsOld && handlers > 1 {
			old = s.decoder.cache.publish(ch.Old, old)
		}
		if needsNew && (handlers > 1 || !ch.Initial) {
			fresh = s.decoder.cache.publish(ch.New, fresh)
		}
		if handlers > 1 {
			s.log.keepValues(ch, old, fresh)
		}
	}
	if old != nil {
		was = old.value
	}
	if fresh != nil {
		is = fresh.value
	}
	return was, is, nil
}

// decodeChange decodes the versions of a change that have no value yet.
func (s *Store) decodeChange(ch *Change, old, fresh *decodedBox) (_, _ *decodedBox, err error) {
	misses := &s.decoder.cache.misses
	if ch.Old != nil && ch.New != nil && fresh == nil {
		if was, is, ok := s.decodeUpdate(ch, old); ok {
			if misses.Add(1); old == nil {
				old = &decodedBox{was}
				misses.Add(1)
			}
			return old, &decodedBox{is}, nil
		}
	}
	decode := func(o *Object, box *decodedBox) (*decodedBox, error) {
		if o == nil || box != nil {
			return box, nil
		}
		value, err := o.decodeBy(s.decoder.decode)
		misses.Add(1)
		return &decodedBox{value}, err
	}
	if old, err = decode(ch.Old, old); err == nil {
		fresh, err = decode(ch.New, fresh)
	}
	return old, fresh, err
}

// decodeUpdate decodes a change's versions together. has is the value of the old version, or nil.
// It returns false if a version has no bytes, or after an error. The caller then decodes the
// versions separately, and so gets the error with the object's key.
func (s *Store) decodeUpdate(ch *Change, has *decodedBox) (was, is any, ok bool) {
	if s.decoder.decode == nil || ch.Old.size == 0 || ch.New.size == 0 {
		return nil, nil, false
	}
	err := ch.Old.withRaw(func(old []byte) (err error) {
		if has != nil {
			was = has.value
		} else if was, err = s.decoder.decode(old, nil); err != nil {
			return err
		}
		return ch.New.withRaw(func(fresh []byte) (err error) {
			is, err = s.decoder.decode(fresh, &codec.Version{Raw: old, Value: was, Unread: has == nil})
			return err
		})
	})
	return was, is, err == nil
}

// publish sets the decoded value of a version, and returns it. The version refers to the value
// weakly, so the value stays in memory as long as a caller or the log uses it. If the version
// already has a value, publish returns that value instead. The caller must use the returned value.
func (c *decodedCache) publish(o *Object, box *decodedBox) *decodedBox {
	if o.size == 0 {
		return box // the version refers to the value permanently
	}
	fresh := newDecodedEntry(box, o.decodedBytes())
	for {
		d := o.decoded.Load()
		if first, _ := d.load(); first != nil {
			return first
		}
		if o.decoded.CompareAndSwap(d, fresh) {
			c.replace(o, d, fresh)
			return box
		}
	}
}

// keepValues stores the values of a change until the last handler has passed the change. It is a
// no-op if the last handler has already passed the change, if there is no room, or if
// Config.KeepLog is set. It does not drop older values to make room, because the slowest handler
// needs the oldest values next.
func (l *changeLog) keepValues(ch *Change, was, is *decodedBox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.values[ch.Revision]
	before := v.bytes
	if v.was == nil && was != nil {
		v.was, v.bytes = was, v.bytes+ch.Old.decodedBytes()
	}
	if v.is == nil && is != nil {
		v.is, v.bytes = is, v.bytes+ch.New.decodedBytes()
	}
	more := v.bytes - before
	if more == 0 || l.keep || ch.Revision < l.base || ch.Revision >= l.next() || l.decoded.forHandlers.Load()+more > l.valueLimit {
		return
	}
	if l.values == nil {
		l.values = make(map[uint64]changeValues)
	}
	l.values[ch.Revision] = v
	l.decoded.addForHandlers(more)
}

// dropValues drops the values of a revision that leaves the log. The caller holds the lock.
func (l *changeLog) dropValues(rev uint64) {
	v, ok := l.values[rev]
	if !ok {
		return
	}
	l.decoded.addForHandlers(-v.bytes)
	if delete(l.values, rev); len(l.values) == 0 {
		l.values = nil // a map does not shrink
	}
}
