package store

import (
	"fmt"
	"sync/atomic"
	"weak"

	"github.com/weirproject/weir/internal/core/views"
)

// decodedEntry is an object's decoded value. At first only a weak pointer refers to the value, so
// that it stays in memory as long as a caller uses it. When a reader reads the value again soon
// after the first read, a strong pointer refers to it too, until it is idle or evicted: see
// decodedCache.
type decodedEntry struct {
	strong atomic.Pointer[decodedBox]
	weak   weakValue
	bytes  int64         // estimate
	used   atomic.Uint32 // used… bits, set by each read

	// Guarded by the cache's lock.
	owner *Object // nil: the cache does not track the entry
	pos   int32   // in the cache's entries
	age   int32   // sweeps since the last read
}

// Each read sets all bits. The sweep of idle entries and the hand of CLOCK each clear their own
// bit.
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

// decodedBox is a decoded value. It gives an address to values that have none.
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
// refers weakly to the object behind it, so all callers receive the same decoded object as long as
// one of them uses it. Otherwise weakValue refers to the box.
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

// alive reports whether the value still exists.
func (w weakValue) alive() bool { return w.value.Alive() || w.box.Value() != nil }

// decodedFactor is the estimated ratio of a decoded object's memory to its raw size. It was
// measured as 3.0 for pods as typed structs from protobuf, and as 3.1 as unstructured from JSON.
const decodedFactor = 3

func newDecodedEntry(box *decodedBox, bytes int64) *decodedEntry {
	return &decodedEntry{weak: makeWeak(box), bytes: bytes}
}

// decodedBytes estimates the memory of the decoded value.
func (o *Object) decodedBytes() int64 { return decodedFactor * int64(o.size) }

// Decoded returns the decoded value, as returned by Config.Decode. All callers share it: copy it
// before you modify it. Decoded is safe for concurrent use.
//
// The value stays in memory as long as a caller uses it. If it is read again within
// Config.DecodedIdle, the store keeps it until it has not been read for that long, or the budget
// requires its eviction. The error is ErrNoDecoder, or that of Config.Decode with the object's key.
func (o *Object) Decoded() (any, error) {
	c := o.layout.cache
	for {
		d := o.decoded.Load()
		box, strongly := d.load()
		again := d.touch()
		if box != nil {
			if again && !strongly {
				c.hold(o, d, box)
			}
			c.hits.Add(1)
			return box.value, nil
		}
		value, err := o.decodeBy(o.layout.decode)
		if err != nil {
			return nil, err
		}
		box = &decodedBox{value}
		fresh := newDecodedEntry(box, o.decodedBytes())
		fresh.touch()
		if !o.decoded.CompareAndSwap(d, fresh) {
			continue // another caller was first: its value is the shared one
		}
		c.misses.Add(1)
		if c.replace(o, d, fresh); again {
			c.hold(o, fresh, box)
		}
		return value, nil
	}
}

// decodeBy returns the new value that decode returns for the object's bytes.
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

// decodeOnce returns the decoded value for a caller that needs it only once: the existing one or,
// if there is none, a new one for this caller alone. It does not cache the value, and does not
// count as a read. The errors are those of Decoded.
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

// existing returns the decoded value if it exists now, and nil otherwise. It does not count as a
// read. o may be nil.
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
// may modify. If a caller has modified the shared value, the new value does not have that
// modification. Do not call DecodeCopy for a version that is stored as a value (see PutValue): it
// has no bytes. The errors are those of Decoded.
func (o *Object) DecodeCopy() (any, error) { return o.decodeBy(o.layout.decodeCopy) }
