package clientgo

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/shard"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// intake stands between an informer's reflector and its store. Captured bytes go straight through; objects are encoded
// where that loses nothing, and held as they are where it does. It is used by the reflector's goroutine.
type sink struct {
	store             *store.Store
	codec             *codec
	objects           *objectStream
	finals            finalStates
	transform         cache.TransformFunc // nil: none. Set before the start
	pin               bool                // hold everything decoded
	syntheticVersions uint64              // how many versions were made up, for objects whose own do not grow
	meta              wire.Meta
	// decoded is given a version that is held encoded, and the value that a transform returned for it; nil: nobody wants them.
	onTransformed func(o *store.Object, value any)
}

// keep returns the reflector's Config.Keep: what is in the shard, and wanted beside that. nil: everything.
func (in *sink) keepFunc(sel *shard.Selector, wanted func(*wire.Meta) bool) func(*wire.Meta) bool {
	if sel == nil && wanted == nil {
		return nil
	}
	return func(m *wire.Meta) bool {
		if (sel == nil || sel.Chooses(m.UID, m.Namespace)) && (wanted == nil || wanted(m)) {
			return true
		}
		if in.objects.active {
			in.objects.take(m.Generation) // nobody else will
		}
		return false
	}
}

// take is the reflector's Config.Take.
func (in *sink) take(w *store.Writer, t wire.EventType, m *wire.Meta, raw []byte) error {
	if in.objects.active {
		return in.takeObject(w, t, m)
	}
	switch {
	case t == wire.Deleted:
		in.keepFinalState(m, raw)
		return w.Delete(m, raw)
	case in.transform == nil && !in.pin:
		return w.Put(m, raw)
	}
	if known, err := w.Known(m, raw); known || err != nil {
		return err // nothing to transform once more
	}
	value, err := in.codec.decode(raw)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return in.put(w, m, raw, value)
}

// keepFinal keeps the state that a DELETED event has, for OnDelete.
func (in *sink) keepFinalState(m *wire.Meta, raw []byte) {
	if in.transform == nil {
		in.finals.putRaw(m, raw)
	} else if value, err := in.codec.decode(raw); err == nil {
		in.keepFinalValue(m, value)
	}
}

// keepFinalValue transforms it, too. A transform that fails has left the version before in place: that is what is told then.
func (in *sink) keepFinalValue(m *wire.Meta, value any) {
	if in.transform != nil {
		changed, err := in.transform(value)
		if err != nil {
			return
		}
		value = changed
	}
	in.finals.putValue(m, value)
}

// put transforms a value and holds it, encoded where it can be. received is what it was decoded from; nil: it was not.
func (in *sink) put(w *store.Writer, m *wire.Meta, received []byte, value any) error {
	if in.transform != nil {
		changed, err := in.transform(value)
		if err != nil {
			return fmt.Errorf("transform: %w", err)
		}
		value = changed
	}
	held, err := meta.Accessor(value)
	if err != nil {
		return fmt.Errorf("transform: %T has no metadata: %w", value, err)
	}
	in.meta = wire.Meta{
		Namespace: []byte(held.GetNamespace()), Name: []byte(held.GetName()),
		UID: []byte(held.GetUID()), ResourceVersion: m.ResourceVersion,
	}
	switch {
	case in.pin:
	case in.transform == nil && received != nil:
		return w.PutAs(&in.meta, received, received)
	default:
		if raw, ok := in.codec.encode(value); ok {
			err := w.PutAs(&in.meta, received, raw)
			if made := w.Made(); made != nil && in.transform != nil && in.onTransformed != nil {
				in.onTransformed(made, value)
			}
			return err
		}
	}
	return w.PutValue(&in.meta, received, value)
}

var errNoObject = errors.New("no object was returned for this item")

// takeReturned takes the object that the ListerWatcher returned.
func (in *sink) takeObject(w *store.Writer, t wire.EventType, m *wire.Meta) error {
	object, ok := in.objects.take(m.Generation)
	if !ok {
		return errNoObject
	}
	if want := in.codec.goType; want != nil && t != 0 && reflect.TypeOf(object) != want {
		return fmt.Errorf("expected %s, but watch event object had type %T", want, object)
	}
	if t != 0 {
		w.Flush() // so that what the store holds is what came before this event
	}
	held, ok := in.store.Get(string(wire.AppendKey(nil, m)))
	state := t == 0 || t == wire.Added // a list, or initial events: what is held may come again
	switch {
	case t == wire.Deleted:
		if ok && isEarlierObject(object, held) {
			return nil // the end of what had the name before, told again
		}
		if ok {
			m.UID = []byte(held.UID())
			in.advanceVersion(m, held)
		}
		in.keepFinalValue(m, object)
		return w.Delete(m, nil)
	case ok && state && sameVersion(object, held):
		m.UID, m.ResourceVersion = []byte(held.UID()), []byte(held.ResourceVersion())
		return in.takeSameVersion(w, m, object) // its content may be another all the same
	case ok && state && in.unchanged(object, held):
		m.UID, m.ResourceVersion = []byte(held.UID()), []byte(held.ResourceVersion())
		raw, err := held.AppendRaw(nil)
		if err != nil {
			return err
		}
		return w.PutAs(m, in.encoded(object), raw) // it is the version held: that is only marked
	case ok:
		in.advanceVersion(m, held)
	}
	return in.put(w, m, in.encoded(object), object)
}

// encoded returns what stands for the bytes that a returned object was received as; nil where it cannot be encoded.
func (in *sink) encoded(object any) []byte {
	raw, _ := in.codec.encode(object)
	return raw
}

// again takes an object that a list has in the version that is held.
func (in *sink) takeSameVersion(w *store.Writer, m *wire.Meta, object any) error {
	received := in.encoded(object)
	if known, err := w.Known(m, received); known || err != nil {
		return err // nothing to transform once more
	}
	return in.put(w, m, received, object)
}

// ofAnother reports whether a deleted object is an older one than that held under its name.
func isEarlierObject(object any, held *store.Object) bool {
	is, err := meta.Accessor(object)
	if err != nil || is.GetUID() == "" || string(is.GetUID()) == held.UID() {
		return false
	}
	has, err := strconv.ParseUint(is.GetResourceVersion(), 10, 64)
	had, number := held.ResourceVersionNumber()
	return err == nil && number && has < had
}

// sameVersion reports whether a list has the version that is held, by the object's own uid and resourceVersion.
func sameVersion(object any, held *store.Object) bool {
	is, err := meta.Accessor(object)
	return err == nil && is.GetResourceVersion() != "" &&
		is.GetResourceVersion() == held.ResourceVersion() && string(is.GetUID()) == held.UID()
}

// unchanged reports whether a list has the version that is held, where that was made up, or is none: fake clientsets give no versions. The
// objects are compared, unless what is held is what a transform has made of one.
func (in *sink) unchanged(object any, held *store.Object) bool {
	value, err := held.Decoded()
	if err != nil {
		return false
	}
	was, err := meta.Accessor(value)
	if err != nil {
		return false
	}
	is, err := meta.Accessor(object)
	if err != nil || is.GetUID() != was.GetUID() || is.GetResourceVersion() != was.GetResourceVersion() {
		return false
	}
	if in.transform != nil {
		return is.GetResourceVersion() != ""
	}
	return equality.Semantic.DeepEqual(object, value)
}

// grow makes up a version for the store, where the object's own is not a number that is higher than that of the version
// held: the order of events is what counts. It is no number either, and so never compared. The object keeps its own.
func (in *sink) advanceVersion(m *wire.Meta, held *store.Object) {
	had, number := held.ResourceVersionNumber()
	has, err := strconv.ParseUint(string(m.ResourceVersion), 10, 64)
	if err == nil && (!number || has > had) {
		return
	}
	in.syntheticVersions++
	m.ResourceVersion = strconv.AppendUint([]byte("weir/"), in.syntheticVersions, 10)
}
