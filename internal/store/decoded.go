package store

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"unsafe"
	"weak"
)

// decodedState is an object's decoded form: first behind a weak pointer, so that
// it lives as long as somebody uses it; from the second read soon after also
// held strongly, until it has been idle.
type decodedState struct {
	strong atomic.Pointer[decodedBox]
	weak   weakValue
	bytes  int64         // estimate
	used   atomic.Uint32 // usedX bits, set by each read

	// Guarded by the cooler's lock.
	owner *Object // nil: not tracked by the cooler
	pos   int     // in the cooler's list
	age   int     // ticks since the last read
}

// Reads set all bits; the sweep of idle ones and the budget's clock hand each
// clear their own.
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
// who ask for this version and must not be changed: make a copy first.
//
// Once asked for, it is kept as long as somebody uses it; asked for again within
// Config.DecodedIdle, until it has not been asked for for that long, or the
// budget wants the room. The error is ErrNoDecoder, or Config.Decode's with the
// object's key.
func (o *Object) Decoded() (any, error) { return o.shared(true) }

// shared returns the decoded form. read: it counts as a read.
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
				o.gen.cooler.hold(o, d, box)
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
			o.gen.cooler.drop(d)
		}
		if d != nil && read {
			o.gen.cooler.hold(o, fresh, box)
		} else {
			o.gen.cooler.watch(o, fresh)
		}
		return value, nil
	}
}

// decode makes a decoded form and shares it with nobody.
func (o *Object) decode() (value any, err error) {
	if o.gen.kind.decode == nil {
		return nil, ErrNoDecoder
	}
	err = o.withRaw(func(raw []byte) error {
		value, err = o.gen.kind.decode(raw)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store: decode %s: %w", o.key, err)
	}
	return value, nil
}

// peek returns the decoded form if there is one, else one of the caller's own.
// It does not count as a read.
func (o *Object) peek() (any, error) {
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
