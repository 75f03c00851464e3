package store

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"
	"weak"
)

// decodedState is an object's decoded form. It is first behind a weak pointer, so that
// it lives as long as somebody uses it. From a second read soon after on it is also
// held strongly, until it is idle or evicted: see decodedCache.
type decodedState struct {
	strong atomic.Pointer[decodedBox]
	weak   weakValue
	bytes  int64         // estimate
	used   atomic.Uint32 // usedX bits, set by each read

	// Guarded by the cache's lock.
	owner *Object // nil: not tracked
	pos   int     // in the cache's list
	age   int     // ticks since the last read
}

// Reads set all bits. The sweep of idle forms and the hand of CLOCK clear their own.
const (
	usedSinceSweep = 1 << iota
	usedSinceHand
	usedNow = usedSinceSweep | usedSinceHand
)

func (d *decodedState) touch() {
	if d.used.Load() != usedNow {
		d.used.Store(usedNow)
	}
}

type decodedBox struct{ value any }

// weakValue is a weak pointer to whatever Config.Decode returned. If that is a
// pointer the weak pointer is to what it points to, not to some wrapping: as
// long as anybody keeps the decoded object, everybody gets the same one.
type weakValue struct {
	ptr weak.Pointer[byte]
	typ reflect.Type // of the value; nil: ptr is to a decodedBox
}

func makeWeak(box *decodedBox) weakValue {
	v := reflect.ValueOf(box.value)
	if v.Kind() == reflect.Pointer && !v.IsNil() && v.Type().Elem().Size() > 0 {
		return weakValue{weak.Make((*byte)(v.UnsafePointer())), v.Type()}
	}
	return weakValue{ptr: weak.Make((*byte)(unsafe.Pointer(box)))}
}

func (w weakValue) get() (*decodedBox, bool) {
	p := unsafe.Pointer(w.ptr.Value())
	switch {
	case p == nil:
		return nil, false
	case w.typ == nil:
		return (*decodedBox)(p), true
	}
	return &decodedBox{reflect.NewAt(w.typ.Elem(), p).Interface()}, true
}

// alive reports whether the value is still there.
func (w weakValue) alive() bool { return w.ptr.Value() != nil }

// decodedFactor estimates the memory of a decoded object from its raw size:
// measured 3.0 for pods as typed structs from protobuf, 3.1 as unstructured from
// JSON.
const decodedFactor = 3

func newDecodedState(box *decodedBox, size uint32) *decodedState {
	d := &decodedState{weak: makeWeak(box), bytes: decodedFactor * int64(size), pos: -1}
	d.used.Store(usedNow)
	return d
}

// Decoded returns the decoded form, made by Config.Decode. It is shared by all
// who ask for this version: do not change it, make a copy first.
//
// It is kept as long as somebody uses it. If it is asked for again within
// Config.DecodedIdle, the store holds it until nobody has asked for it for that
// long, or the budget needs the room. The error is ErrNoDecoder, or Config.Decode's
// with the object's key.
func (o *Object) Decoded() (any, error) { return o.shared(true) }

// shared returns the decoded form. With read it counts as a read.
func (o *Object) shared(read bool) (any, error) {
	for {
		d := o.decoded.Load()
		if d != nil {
			box := d.strong.Load()
			held := box != nil
			if !held {
				box, _ = d.weak.get()
			}
			if box != nil && read {
				d.touch()
			}
			if box != nil && read && !held {
				o.layout.cache.hold(o, d, box)
			}
			if box != nil {
				return box.value, nil
			}
		}
		value, err := o.decode()
		if err != nil {
			return nil, err
		}
		box := &decodedBox{value}
		fresh := newDecodedState(box, o.size)
		if !o.decoded.CompareAndSwap(d, fresh) {
			continue // somebody else was first: theirs is the shared one
		}
		if d != nil {
			o.layout.cache.drop(d)
		}
		if d != nil && read {
			o.layout.cache.hold(o, fresh, box)
		} else {
			o.layout.cache.watch(o, fresh)
		}
		return value, nil
	}
}

// decode returns a decoded form that is shared with nobody.
func (o *Object) decode() (value any, err error) {
	if o.layout.decode == nil {
		return nil, ErrNoDecoder
	}
	err = o.withRaw(func(raw []byte) error {
		value, err = o.layout.decode(raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store: decode %s: %w", o.key, err)
	}
	return value, nil
}

// DecodeOnce returns the decoded form for somebody who needs it once, such as a
// handler: the shared one if there is one, else a new one for the caller alone. It
// keeps nothing decoded, and does not count as a read. The errors are Decoded's.
func (o *Object) DecodeOnce() (any, error) {
	if d := o.decoded.Load(); d != nil {
		if box := d.strong.Load(); box != nil {
			return box.value, nil
		}
		if box, ok := d.weak.get(); ok {
			return box.value, nil
		}
	}
	return o.decode()
}

// Glance returns the decoded form for handlers, of which several are handed the same
// objects one after another. They share it while one of them uses it. It does not
// count as a read, and nothing stays decoded for it. The errors are Decoded's.
func (o *Object) Glance() (any, error) { return o.shared(false) }

// Fresh decodes the object's bytes once more, for the caller alone. Changes that
// others have made to the shared form do not show. A version that is held as a value
// has no bytes (see Size). The errors are Decoded's.
func (o *Object) Fresh() (any, error) { return o.decode() }

// IsDecoded reports whether there is a decoded form now, so that DecodeOnce would not
// have to make one.
func (o *Object) IsDecoded() bool {
	d := o.decoded.Load()
	return d != nil && (d.strong.Load() != nil || d.weak.alive())
}

// Held returns the decoded form if the store itself holds it, as it does after a
// second read: see Decoded. It counts as a read, and never decodes.
func (o *Object) Held() (value any, ok bool) {
	d := o.decoded.Load()
	if d == nil {
		return nil, false
	}
	box := d.strong.Load()
	if box == nil {
		return nil, false
	}
	d.touch()
	return box.value, true
}
