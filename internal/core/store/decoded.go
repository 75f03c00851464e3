package store

import (
	"fmt"
	"sync/atomic"
	"weak"

	"github.com/weirproject/weir/internal/core/views"
)

// decodedEntry is an object's decoded value in the cache. At first only a weak pointer holds it, so
// that it lives as long as a caller uses it. After a second read soon after the first, a strong
// pointer holds it too, until it is idle or evicted: see decodedCache. A value cached for handlers
// has a strong pointer alone.
type decodedEntry struct {
	strong       atomic.Pointer[decodedBox]
	weak         weakValue     // zero: there is none
	bytes        int64         // estimate
	used         atomic.Uint32 // usedX bits, set by each read
	awaitsHit    atomic.Bool   // set by Store.CacheLatest, cleared by the first hit
	handlersLeft atomic.Int32  // how many have yet to get it: see Store.CacheForHandlers

	// Guarded by the cache's lock.
	owner   *Object // nil: in no segment
	segment *cacheSegment
	pos     int32  // in the segment
	age     int32  // ticks since the last read
	change  uint32 // decodedCache.changes when Store.CacheLatest was called
	refused bool   // by Store.CacheLatest, for want of room
}

// Each read sets all bits. The sweep of idle entries and the hand of CLOCK each clear their own.
const (
	usedSinceSweep = 1 << iota
	usedSinceHand
	usedNow = usedSinceSweep | usedSinceHand
)

func (d *decodedEntry) touch() {
	if d.used.Load() != usedNow {
		d.used.Store(usedNow)
	}
}

// decodedBox is a decoded value, with the note that came with it to Store.CacheLatest.
type decodedBox struct{ value, note any }

// load returns the decoded value if it exists, and whether it is held strongly. d may be nil.
func (d *decodedEntry) load() (box *decodedBox, held bool) {
	if d == nil {
		return nil, false
	}
	if box = d.strong.Load(); box != nil {
		return box, true
	}
	return d.weak.get(), false
}

// weakValue is a weak pointer to the result of Config.Decode. If the result is a pointer, weakValue
// points to what that points to, so all callers receive the same decoded object as long as one of
// them keeps it. Otherwise it points to the box.
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

// get returns the value in a box, or nil if it was collected.
func (w weakValue) get() *decodedBox {
	if value := w.value.Value(); value != nil {
		return &decodedBox{value: value}
	}
	return w.box.Value()
}

// alive reports whether the value still exists.
func (w weakValue) alive() bool { return w.value.Alive() || w.box.Value() != nil }

// decodedFactor is the estimated ratio of a decoded object's memory to its raw size. It was
// measured as 3.0 for pods as typed structs from protobuf, and as 3.1 as unstructured from JSON.
const decodedFactor = 3

func newDecodedEntry(box *decodedBox, bytes int64) *decodedEntry {
	d := &decodedEntry{weak: makeWeak(box), bytes: bytes}
	d.used.Store(usedNow)
	return d
}

// decodedBytes estimates the memory of the decoded value.
func (o *Object) decodedBytes() int64 { return decodedFactor * int64(o.size) }

// Decoded returns the decoded value, made by Config.Decode. All who ask for this version share it:
// copy it before you change it. Safe for concurrent use.
//
// The value lives as long as a caller uses it. If it is asked for again within Config.DecodedIdle,
// the store holds it until no caller has asked for that long, or the budget needs the room. The
// error is ErrNoDecoder, or that of Config.Decode with the object's key.
func (o *Object) Decoded() (any, error) { return o.decodeCached(1) }

// PeekDecoded returns what Decoded does, without counting as a read: it keeps nothing decoded. It
// is for handlers, several of which get the same objects one after another. They share the value
// while one of them uses it. The errors are those of Decoded.
func (o *Object) PeekDecoded() (any, error) { return o.decodeCached(0) }

// decodeCached returns the cached value, and decodes it if there is none. reads is how many reads
// the call stands for.
func (o *Object) decodeCached(reads int) (any, error) {
	c := o.layout.cache
	for {
		d := o.decoded.Load()
		if box, held := d.load(); box != nil {
			if reads > 0 {
				d.touch()
			}
			if reads > 0 && !held {
				c.hold(o, d, box)
			}
			if d.awaitsHit.Load() {
				c.countHit(d)
			}
			c.hits.Add(1)
			return box.value, nil
		}
		value, err := o.decodeBy(o.layout.decode)
		if err != nil {
			return nil, err
		}
		box := &decodedBox{value: value}
		fresh := newDecodedEntry(box, o.decodedBytes())
		if !o.decoded.CompareAndSwap(d, fresh) {
			continue // another caller was first: its value is the shared one
		}
		c.misses.Add(1)
		if d != nil {
			c.drop(d)
		}
		if reads > 1 || d != nil && reads > 0 {
			c.hold(o, fresh, box)
		} else {
			c.track(o, fresh)
		}
		return value, nil
	}
}

// decodeBy returns a new value that decode makes of the object's bytes.
func (o *Object) decodeBy(decode func(raw []byte) (any, error)) (value any, err error) {
	if decode == nil {
		return nil, ErrNoDecoder
	}
	err = o.withRaw(func(raw []byte) error {
		value, err = decode(raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.key, err)
	}
	return value, nil
}

// DecodeOnce returns the decoded value for a caller that needs it once, such as a handler. It
// returns what Cached does or, if there is nothing, a new value for the caller alone. Treat it as
// shared: do not change it. DecodeOnce keeps nothing decoded, and does not count as a read. The
// errors are those of Decoded.
func (o *Object) DecodeOnce() (any, error) {
	if value, _, ok := o.Cached(); ok {
		return value, nil
	}
	value, err := o.decodeBy(o.layout.decode)
	if err == nil {
		o.layout.cache.misses.Add(1)
	}
	return value, err
}

// Cached returns the decoded value if the cache has it, and the note that came with it to
// Store.CacheLatest. If the value is held for handlers (see Store.CacheForHandlers), the call
// counts as that of one of them. Cached never decodes, and does not count as a read.
func (o *Object) Cached() (value, note any, ok bool) {
	d := o.decoded.Load()
	box, _ := d.load()
	if box == nil {
		return nil, nil, false
	}
	c := o.layout.cache
	c.hits.Add(1)
	if d.awaitsHit.Load() {
		c.countHit(d)
	}
	if d.handlersLeft.Load() > 0 {
		c.mu.Lock()
		c.handlerTook(d)
		c.mu.Unlock()
	}
	return box.value, box.note, true
}

// DecodeCopy decodes the object's bytes once more, by Config.DecodeCopy, for the caller alone, who
// may change the value. So it does not show changes that others have made to the shared value. A
// version that is held as a value has no bytes (see Size). The errors are those of Decoded.
func (o *Object) DecodeCopy() (any, error) { return o.decodeBy(o.layout.decodeCopy) }

// IsDecoded reports whether a decoded value exists now, so that DecodeOnce need not make one.
func (o *Object) IsDecoded() bool {
	d := o.decoded.Load()
	return d != nil && (d.strong.Load() != nil || d.weak.alive())
}
