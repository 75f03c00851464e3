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
// too, until it is idle or evicted: see decodedCache. What is held for handlers has a strong
// pointer alone.
type decodedState struct {
	strong  atomic.Pointer[decodedBox]
	weak    weakValue     // zero: there is none
	bytes   int64         // estimate
	used    atomic.Uint32 // usedX bits, set by each read
	awaited atomic.Bool   // kept, and not found yet: see Store.Keep
	uses    atomic.Int32  // how many handlers have yet to take it: see Store.Lend

	// Guarded by the cache's lock.
	owner  *Object // nil: on no shelf
	on     *shelf
	pos    int32  // on the shelf
	age    int32  // ticks since the last read
	change uint32 // decodedCache.changes when it was kept
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

// decodedBox is a decoded form, with what Store.Keep was given to note.
type decodedBox struct{ value, note any }

// form returns the decoded form if it exists, and whether it is held strongly. d may be nil.
func (d *decodedState) form() (box *decodedBox, held bool) {
	if d == nil {
		return nil, false
	}
	if box = d.strong.Load(); box != nil {
		return box, true
	}
	box, _ = d.weak.get()
	return box, false
}

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
	return &decodedBox{value: reflect.NewAt(w.typ.Elem(), p).Interface()}, true
}

// alive reports whether the value still exists.
func (w weakValue) alive() bool { return w.ptr.Value() != nil }

// decodedFactor is the estimated ratio of a decoded object's memory to its raw size. It was
// measured as 3.0 for pods as typed structs from protobuf, and as 3.1 as unstructured from JSON.
const decodedFactor = 3

func newDecodedState(box *decodedBox, bytes int64) *decodedState {
	d := &decodedState{weak: makeWeak(box), bytes: bytes}
	d.used.Store(usedNow)
	return d
}

// decodedBytes estimates the memory of the decoded form.
func (o *Object) decodedBytes() int64 { return decodedFactor * int64(o.size) }

// Decoded returns the decoded form, made by Config.Decode. All who ask for this version share it:
// copy it before you change it. Safe for concurrent use.
//
// The form lives as long as somebody uses it. If it is asked for again within Config.DecodedIdle,
// the store holds it until nobody has asked for that long, or the budget needs the room. The error
// is ErrNoDecoder, or that of Config.Decode with the object's key.
func (o *Object) Decoded() (any, error) { return o.shared(1) }

// Glance returns the decoded form for handlers, several of which get the same objects one after
// another. They share the form while one of them uses it. Glance does not count as a read, and
// keeps nothing decoded. The errors are those of Decoded.
func (o *Object) Glance() (any, error) { return o.shared(0) }

// shared returns the decoded form. reads is how many reads the call stands for.
func (o *Object) shared(reads int) (any, error) {
	c := o.layout.cache
	for {
		d := o.decoded.Load()
		if box, held := d.form(); box != nil {
			if reads > 0 {
				d.touch()
			}
			if reads > 0 && !held {
				c.hold(o, d, box)
			}
			if d.awaited.Load() {
				c.found(d)
			}
			c.hits.Add(1)
			return box.value, nil
		}
		value, err := o.decode()
		if err != nil {
			return nil, err
		}
		box := &decodedBox{value: value}
		fresh := newDecodedState(box, o.decodedBytes())
		if !o.decoded.CompareAndSwap(d, fresh) {
			continue // somebody else was first: theirs is the shared one
		}
		c.misses.Add(1)
		if d != nil {
			c.drop(d)
		}
		if reads > 1 || d != nil && reads > 0 {
			c.hold(o, fresh, box)
		} else {
			c.watch(o, fresh)
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
// what Take does or, if there is no form, a new one for the caller alone. Treat it as shared: do
// not change it. DecodeOnce keeps nothing decoded, and does not count as a read. The errors are
// those of Decoded.
func (o *Object) DecodeOnce() (any, error) {
	if value, _, ok := o.Take(); ok {
		return value, nil
	}
	value, err := o.decode()
	if err == nil {
		o.layout.cache.misses.Add(1)
	}
	return value, err
}

// Take returns the decoded form if there is one, and what Store.Keep was given to note. If the form
// is lent to handlers (see Store.Lend), the caller is one of them. Take never decodes, and does not
// count as a read.
func (o *Object) Take() (value, note any, ok bool) {
	d := o.decoded.Load()
	box, _ := d.form()
	if box == nil {
		return nil, nil, false
	}
	c := o.layout.cache
	c.hits.Add(1)
	if d.awaited.Load() {
		c.found(d)
	}
	if d.uses.Load() > 0 {
		c.mu.Lock()
		c.took(d)
		c.mu.Unlock()
	}
	return box.value, box.note, true
}

// Fresh decodes the object's bytes once more, for the caller alone. So it does not show changes
// that others have made to the shared form. A version that is held as a value has no bytes (see
// Size). The errors are those of Decoded.
func (o *Object) Fresh() (any, error) { return o.decode() }

// IsDecoded reports whether a decoded form exists now, so that DecodeOnce need not make one.
func (o *Object) IsDecoded() bool {
	d := o.decoded.Load()
	return d != nil && (d.strong.Load() != nil || d.weak.alive())
}
