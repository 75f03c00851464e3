package store

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"
	"weak"
)

// decodedState is an object's decoded form. At first only a weak pointer holds it, so that it lives
// as long as somebody uses it. After a second read soon after the first, a strong pointer holds it
// too, until it is idle or evicted: see decodedCache.
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

// Each read sets all bits. The sweep of idle forms and the hand of CLOCK each clear their own.
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

// weakValue is a weak pointer to what Config.Decode returned. If that is a pointer, weakValue
// points to what it points to, not to a wrapping. So everybody gets the same decoded object as long
// as anybody keeps it.
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

// alive reports whether the value still exists.
func (w weakValue) alive() bool { return w.ptr.Value() != nil }

// decodedFactor is the estimated ratio of a decoded object's memory to its raw size. It was
// measured as 3.0 for pods as typed structs from protobuf, and as 3.1 as unstructured from JSON.
const decodedFactor = 3

func newDecodedState(box *decodedBox, size uint32) *decodedState {
	d := &decodedState{weak: makeWeak(box), bytes: decodedFactor * int64(size), pos: -1}
	d.used.Store(usedNow)
	return d
}

// Decoded returns the decoded form, made by Config.Decode. All who ask for this version share it:
// copy it before you change it. Safe for concurrent use.
//
// The form lives as long as somebody uses it. If it is asked for again within Config.DecodedIdle,
// the store holds it until nobody has asked for that long, or the budget needs the room. The error
// is ErrNoDecoder, or that of Config.Decode with the object's key.
func (o *Object) Decoded() (any, error) { return o.shared(true) }

// shared returns the decoded form. If read is set, the call counts as a read.
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

// decode returns a new decoded form that nobody else has.
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

// DecodeOnce returns the decoded form for somebody who needs it once, such as a handler. It returns
// the shared form if there is one, and otherwise a new one for the caller alone. Treat it as
// shared: do not change it. DecodeOnce keeps nothing decoded, and does not count as a read. The
// errors are those of Decoded.
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

// Glance returns the decoded form for handlers, several of which get the same objects one after
// another. They share the form while one of them uses it. Glance does not count as a read, and
// keeps nothing decoded. The errors are those of Decoded.
func (o *Object) Glance() (any, error) { return o.shared(false) }

// Fresh decodes the object's bytes once more, for the caller alone. So it does not show changes
// that others have made to the shared form. A version that is held as a value has no bytes (see
// Size). The errors are those of Decoded.
func (o *Object) Fresh() (any, error) { return o.decode() }

// IsDecoded reports whether a decoded form exists now, so that DecodeOnce need not make one.
func (o *Object) IsDecoded() bool {
	d := o.decoded.Load()
	return d != nil && (d.strong.Load() != nil || d.weak.alive())
}

// Held returns the decoded form if the store itself holds it, as it does after a second read: see
// Decoded. The form is shared. Held never decodes, and counts as a read if ok.
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
