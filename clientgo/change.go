package clientgo

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/store"
)

// lookNew is look for a version that has just come, which recent keeps for its next change.
func (r *reader) lookNew(o *store.Object, several bool) (any, error) {
	if r.recent == nil || o.Size() == 0 {
		return r.look(o)
	}
	if r.pairs == nil {
		return r.newAlone(o, several)
	}
	sc := r.pairs.scratch.Get().(*pairScratch)
	defer r.pairs.scratch.Put(sc)
	sc.was, sc.wasParts = sc.was[:0], sc.wasParts[:0]
	return r.newOf(nil, o, sc, several)
}

// lookBoth is look for the two versions of a change. They share what is the same in both if versions may.
func (r *reader) lookBoth(was, is *store.Object, several bool) (old, fresh any, err error) {
	if r.recent == nil || was.Size() == 0 || is.Size() == 0 {
		if old, err = r.look(was); err == nil {
			fresh, err = r.look(is)
		}
		return old, fresh, err
	}
	if r.pairs == nil {
		return r.bothApart(was, is, several)
	}
	sc := r.pairs.scratch.Get().(*pairScratch)
	defer r.pairs.scratch.Put(sc)
	if old, err = r.oldOf(was, sc); err == nil {
		fresh, err = r.newOf(old, is, sc, several)
	}
	return old, fresh, err
}

// bothApart gives the values of two versions, which share nothing that can be changed, and keeps the new one.
func (r *reader) bothApart(was, is *store.Object, several bool) (old, fresh any, err error) {
	if old, fresh, ok := r.decodeBoth(was, is); ok {
		r.keep(is, fresh, several)
		return old, fresh, nil
	}
	if old, err = r.lookHeld(was); err == nil {
		fresh, err = r.newAlone(is, several)
	}
	return old, fresh, err
}

// decodeBoth decodes two versions at once. It reports false where one of them is there already, and for an error, which decoding one of them gives
// again.
func (r *reader) decodeBoth(was, is *store.Object) (old, fresh any, ok bool) {
	if was.IsDecoded() || is.IsDecoded() || r.recent.has(was) || r.recent.has(is) || r.handed.has(is) {
		return nil, nil, false
	}
	sc := bothScratches.Get().(*bothScratch)
	defer sc.release()
	var err error
	if sc.was, err = was.AppendRaw(sc.was[:0]); err != nil {
		return nil, nil, false
	}
	if sc.is, err = is.AppendRaw(sc.is[:0]); err != nil {
		return nil, nil, false
	}
	old, fresh, err = r.codec.decodeVersions(sc.was, sc.is)
	return old, fresh, err == nil
}

// bothScratch has the bytes of two versions while they are decoded. It goes from change to change, unless it has become larger than
// maxBothScratch, and then to the garbage collector.
type bothScratch struct{ was, is []byte }

const maxBothScratch = 1 << 20 // bytes of both

var bothScratches = sync.Pool{New: func() any { return new(bothScratch) }}

func (sc *bothScratch) release() {
	if cap(sc.was)+cap(sc.is) <= maxBothScratch {
		bothScratches.Put(sc)
	}
}

// keep holds the value of a version that has just come, if there is room.
func (r *reader) keep(o *store.Object, value any, several bool) {
	if r.recent.hasRoom(o) {
		r.recent.put(version{object: o, value: value}, several)
	}
}

// lookHeld is look for a version that may be held since it was the new one.
func (r *reader) lookHeld(o *store.Object) (any, error) {
	if held, ok := r.recent.get(o); ok {
		return held.value, nil
	}
	return r.lookAlone(o)
}

// newAlone gives the value of a version that has just come, and keeps it.
func (r *reader) newAlone(o *store.Object, several bool) (any, error) {
	value, err := r.lookHeld(o)
	if err == nil {
		r.keep(o, value, several)
	}
	return value, err
}

// lookLast is look for the last version of an object that is gone.
func (r *reader) lookLast(o *store.Object) (any, error) {
	if r.recent == nil {
		return r.look(o)
	}
	held, ok := r.recent.get(o)
	r.recent.forget(o.Key())
	if ok {
		return held.value, nil
	}
	return r.look(o)
}

// lookDeleted gives an object that is gone in the state that it was deleted in, or, where that is not kept any more, its last version
// with the resourceVersion of its deletion.
func (r *reader) lookDeleted(o *store.Object, number uint64) (any, error) {
	if number == 0 {
		return r.lookLast(o) // it is not known
	}
	if value, ok := r.lookFinal(o.Key(), number); ok {
		return value, nil
	}
	resourceVersion := strconv.FormatUint(number, 10)
	if r.pairs != nil {
		value, err := r.lookLast(o)
		if err != nil {
			return nil, err
		}
		return withVersion(value, resourceVersion), nil
	}
	value, err := r.fresh(o)
	if err != nil {
		return nil, err
	}
	if r.recent != nil {
		r.recent.forget(o.Key())
	}
	if m, err := meta.Accessor(value); err == nil {
		m.SetResourceVersion(resourceVersion)
	}
	if r.detector != nil {
		r.detector.Add(o.Key(), value)
	}
	return value, nil
}

// lookFinal gives the state that an object was deleted in.
func (r *reader) lookFinal(key string, number uint64) (any, bool) {
	state, ok := r.finals.get(key, number)
	if !ok {
		return nil, false
	}
	value, err := state.decode(r.codec, r.private)
	if err != nil {
		return nil, false // the version before can be decoded, perhaps
	}
	if r.recent != nil {
		r.recent.forget(key)
	}
	if r.detector != nil {
		r.detector.Add(key, value)
	}
	return value, true
}

// fresh gives a version as it came, to nobody else: those who were handed it may have changed what they got.
func (r *reader) fresh(o *store.Object) (any, error) {
	if o.Size() > 0 {
		return o.Fresh()
	}
	value, err := o.DecodeOnce() // it is held as a value
	if object, ok := value.(runtime.Object); ok && err == nil {
		return object.DeepCopyObject(), nil
	}
	return value, err
}

// oldOf gives the value of the version before, and leaves its parts, or its bytes, in the scratch.
func (r *reader) oldOf(was *store.Object, sc *pairScratch) (value any, err error) {
	sc.was, sc.wasParts = sc.was[:0], sc.wasParts[:0]
	if held, ok := r.recent.get(was); ok {
		sc.wasParts = append(sc.wasParts, held.parts...)
		return held.value, nil
	}
	if sc.was, err = was.AppendRaw(sc.was); err != nil {
		return nil, err
	}
	if was.IsDecoded() {
		return was.DecodeOnce()
	}
	if value, err = r.codec.decodeShared(sc.was); err != nil {
		return was.DecodeOnce() // whose error says which object it is
	}
	return value, nil
}

// newOf gives the value of the version after, with what it shares with old, and keeps it.
func (r *reader) newOf(old any, is *store.Object, sc *pairScratch, several bool) (value any, err error) {
	if held, ok := r.recent.get(is); ok {
		return held.value, nil
	}
	if is.IsDecoded() {
		return is.DecodeOnce()
	}
	if sc.is, err = is.AppendRaw(sc.is[:0]); err != nil {
		return nil, err
	}
	value, ok := r.pairs.decode(old, sc)
	if ok {
		value = r.codec.stamp(value)
	} else {
		sc.parts = sc.parts[:0]
		if value, err = r.codec.decodeShared(sc.is); err != nil {
			return is.DecodeOnce()
		}
	}
	if r.recent.hasRoom(is) {
		r.recent.put(version{is, value, sums(sc.parts)}, several)
	}
	return value, nil
}
