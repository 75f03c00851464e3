package clientgo

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/mutation"
	"github.com/weirproject/weir/internal/store"
)

// reader gives the values of objects to those who read them, as the options say.
type reader struct {
	codec            *codec
	finalStates      *finalStates
	delta            *deltaDecoder // nil: versions share nothing
	updates          *updateCache  // nil: values are not to be shared
	handlerCache     *handlerCache // nil like recent
	private          bool
	mutationDetector *mutation.Detector // nil: off
}

func newReader(opts Options, codec *codec, finals *finalStates) *reader {
	r := &reader{codec: codec, finalStates: finals, private: opts.PrivateCopies}
	if opts.ShareDecoded {
		r.delta = newDeltaDecoder(codec.goType)
	}
	if opts.DetectMutation {
		r.mutationDetector = mutation.New(nil)
	}
	if !r.private && r.mutationDetector == nil {
		r.updates = newUpdateCache(opts.DecodedIdle, opts.DecodedBudget)
		r.handlerCache = newHandlerCache(opts.DecodedBudget)
	}
	return r
}

// value decodes an object, unless a handler has just been handed it. Unless copies are private it is shared.
func (r *reader) value(o *store.Object) (any, error) {
	if r.updates != nil {
		if value, ok := o.Held(); ok {
			return value, nil
		}
		if held, ok := r.updates.get(o); ok {
			return held.value, nil
		}
		if value, ok := r.handlerCache.get(o); ok {
			return value, nil
		}
	}
	return r.applyOptions(o, o.Decoded)
}

// look is value for somebody who reads the object once.
func (r *reader) valueOnce(o *store.Object) (any, error) {
	return r.applyOptions(o, o.DecodeOnce)
}

// lookShared is look for one of several handlers that are to see a version about now: it is decoded once for all of them, mostly.
func (r *reader) sharedHandlerValue(o *store.Object) (any, error) {
	if r.handlerCache == nil {
		return r.value(o)
	}
	if value, ok := r.handlerCache.get(o); ok {
		return value, nil
	}
	value, err := r.eventValue(o)
	if err != nil || o.Size() == 0 {
		return value, err
	}
	return r.handlerCache.getOrPut(o, value), nil
}

// lookAlone is look for the one handler that there is.
func (r *reader) handlerValue(o *store.Object) (any, error) {
	if r.handlerCache != nil {
		if value, ok := r.handlerCache.take(o); ok {
			return value, nil
		}
	}
	return r.valueOnce(o)
}

// hand keeps the value of a version for the handlers that are about to be handed it.
func (r *reader) cacheTransformed(o *store.Object, value any) {
	if r.handlerCache != nil && r.delta == nil {
		r.handlerCache.getOrPut(o, value)
	}
}

func (r *reader) applyOptions(o *store.Object, decode func() (any, error)) (any, error) {
	value, err := decode()
	if err != nil {
		return nil, err
	}
	if r.private {
		if object, ok := value.(runtime.Object); ok {
			return object.DeepCopyObject(), nil
		}
	}
	if r.mutationDetector != nil {
		r.mutationDetector.Add(o.Key(), value)
	}
	return value, nil
}

// detect watches over the shared values until the context ends.
func (r *reader) runMutationDetector(ctx context.Context) {
	if r.mutationDetector != nil {
		r.mutationDetector.Run(ctx)
	}
}

// close lets go of what is held for handlers.
func (r *reader) close() {
	r.finalStates.close()
	if r.updates != nil {
		r.updates.close()
		r.handlerCache.close()
	}
}

// lookNew is look for a version that has just come, which recent keeps for its next change.
func (r *reader) newValue(o *store.Object, several bool) (any, error) {
	if r.updates == nil || o.Size() == 0 {
		return r.valueOnce(o)
	}
	if r.delta == nil {
		return r.newSeparateValue(o, several)
	}
	sc := r.delta.buffers.Get().(*deltaBuffers)
	defer r.delta.buffers.Put(sc)
	sc.oldRaw, sc.oldFields = sc.oldRaw[:0], sc.oldFields[:0]
	return r.newDeltaValue(nil, o, sc, several)
}

// lookBoth is look for the two versions of a change. They share what is the same in both if versions may.
func (r *reader) updateValues(was, is *store.Object, several bool) (old, fresh any, err error) {
	if r.updates == nil || was.Size() == 0 || is.Size() == 0 {
		if old, err = r.valueOnce(was); err == nil {
			fresh, err = r.valueOnce(is)
		}
		return old, fresh, err
	}
	if r.delta == nil {
		return r.separateValues(was, is, several)
	}
	sc := r.delta.buffers.Get().(*deltaBuffers)
	defer r.delta.buffers.Put(sc)
	if old, err = r.oldDeltaValue(was, sc); err == nil {
		fresh, err = r.newDeltaValue(old, is, sc, several)
	}
	return old, fresh, err
}

// bothApart gives the values of two versions, which share nothing that can be changed, and keeps the new one.
func (r *reader) separateValues(was, is *store.Object, several bool) (old, fresh any, err error) {
	if old, fresh, ok := r.decodeTogether(was, is); ok {
		r.cacheUpdate(is, fresh, several)
		return old, fresh, nil
	}
	if old, err = r.eventValue(was); err == nil {
		fresh, err = r.newSeparateValue(is, several)
	}
	return old, fresh, err
}

// decodeBoth decodes two versions at once. It reports false where one of them is there already, and for an error, which decoding one of them gives
// again.
func (r *reader) decodeTogether(was, is *store.Object) (old, fresh any, ok bool) {
	if was.IsDecoded() || is.IsDecoded() || r.updates.has(was) || r.updates.has(is) || r.handlerCache.has(is) {
		return nil, nil, false
	}
	sc := versionBufferPool.Get().(*versionBuffers)
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
type versionBuffers struct{ was, is []byte }

const maxVersionBuffers = 1 << 20 // bytes of both

var versionBufferPool = sync.Pool{New: func() any { return new(versionBuffers) }}

func (sc *versionBuffers) release() {
	if cap(sc.was)+cap(sc.is) <= maxVersionBuffers {
		versionBufferPool.Put(sc)
	}
}

// keep holds the value of a version that has just come, if there is room.
func (r *reader) cacheUpdate(o *store.Object, value any, several bool) {
	if r.updates.admit(o) {
		r.updates.put(cachedVersion{object: o, value: value}, several)
	}
}

// lookHeld is look for a version that may be held since it was the new one.
func (r *reader) eventValue(o *store.Object) (any, error) {
	if held, ok := r.updates.get(o); ok {
		return held.value, nil
	}
	return r.handlerValue(o)
}

// newAlone gives the value of a version that has just come, and keeps it.
func (r *reader) newSeparateValue(o *store.Object, several bool) (any, error) {
	value, err := r.eventValue(o)
	if err == nil {
		r.cacheUpdate(o, value, several)
	}
	return value, err
}

// fresh gives a version as it came, to nobody else: those who were handed it may have changed what they got.
func (r *reader) freshValue(o *store.Object) (any, error) {
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
func (r *reader) oldDeltaValue(was *store.Object, sc *deltaBuffers) (value any, err error) {
	sc.oldRaw, sc.oldFields = sc.oldRaw[:0], sc.oldFields[:0]
	if held, ok := r.updates.get(was); ok {
		sc.oldFields = append(sc.oldFields, held.fields...)
		return held.value, nil
	}
	if sc.oldRaw, err = was.AppendRaw(sc.oldRaw); err != nil {
		return nil, err
	}
	if was.IsDecoded() {
		return was.DecodeOnce()
	}
	if value, err = r.codec.decodeShared(sc.oldRaw); err != nil {
		return was.DecodeOnce() // whose error says which object it is
	}
	return value, nil
}

// newOf gives the value of the version after, with what it shares with old, and keeps it.
func (r *reader) newDeltaValue(old any, is *store.Object, sc *deltaBuffers, several bool) (value any, err error) {
	if held, ok := r.updates.get(is); ok {
		return held.value, nil
	}
	if is.IsDecoded() {
		return is.DecodeOnce()
	}
	if sc.newRaw, err = is.AppendRaw(sc.newRaw[:0]); err != nil {
		return nil, err
	}
	value, ok := r.delta.decode(old, sc)
	if ok {
		value = r.codec.setTypeMeta(value)
	} else {
		sc.newFields = sc.newFields[:0]
		if value, err = r.codec.decodeShared(sc.newRaw); err != nil {
			return is.DecodeOnce()
		}
	}
	if r.updates.admit(is) {
		r.updates.put(cachedVersion{is, value, digests(sc.newFields)}, several)
	}
	return value, nil
}
