package clientgo

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/codec"
	"github.com/weirproject/weir/internal/mutation"
	"github.com/weirproject/weir/internal/store"
)

// reader returns the values of objects to readers and handlers, as the options say. Safe for
// concurrent use.
type reader struct {
	codec            *codec.Codec
	finalStates      *finalStates
	delta            *deltaDecoder // nil if versions share nothing
	updates          *updateCache  // nil if values are not shared between readers
	handlerCache     *handlerCache // nil if updates is nil
	private          bool
	mutationDetector *mutation.Detector // nil if off
}

func newReader(opts Options, values *codec.Codec, finals *finalStates) *reader {
	r := &reader{codec: values, finalStates: finals, private: opts.PrivateCopies}
	if opts.ShareDecoded {
		r.delta = newDeltaDecoder(values.Type())
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

// value returns the value of an object for a reader. The result is shared unless copies are
// private.
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

// valueOnce returns the value of an object for somebody who reads it once: it does not stay
// decoded.
func (r *reader) valueOnce(o *store.Object) (any, error) {
	return r.applyOptions(o, o.DecodeOnce)
}

// sharedHandlerValue returns the value of a version for one of several handlers that get it at
// about the same time. It is mostly decoded once for all of them.
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

// handlerValue returns the value of a version for the only handler.
func (r *reader) handlerValue(o *store.Object) (any, error) {
	if r.handlerCache != nil {
		if value, ok := r.handlerCache.take(o); ok {
			return value, nil
		}
	}
	return r.valueOnce(o)
}

// cacheTransformed stores the value that a transform returned for the handlers that are about to
// get it.
func (r *reader) cacheTransformed(o *store.Object, value any) {
	if r.handlerCache != nil && r.delta == nil {
		r.handlerCache.getOrPut(o, value)
	}
}

// applyOptions decodes an object, copies it if copies are private, and registers it with the
// mutation detector.
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

// runMutationDetector checks shared values for changes until the context ends.
func (r *reader) runMutationDetector(ctx context.Context) {
	if r.mutationDetector != nil {
		r.mutationDetector.Run(ctx)
	}
}

// close drops everything that is cached for handlers.
func (r *reader) close() {
	r.finalStates.close()
	if r.updates != nil {
		r.updates.close()
		r.handlerCache.close()
	}
}

// newValue returns the value of a version that has just arrived, and caches it for the object's
// next change. several says that there are several handlers.
func (r *reader) newValue(o *store.Object, several bool) (any, error) {
	if r.updates == nil || o.Size() == 0 {
		return r.valueOnce(o)
	}
	if r.delta == nil {
		return r.newSeparateValue(o, several)
	}
	buf := r.delta.buffers.Get().(*deltaBuffers)
	defer r.delta.buffers.Put(buf)
	buf.oldRaw, buf.oldFields = buf.oldRaw[:0], buf.oldFields[:0]
	return r.newDeltaValue(nil, o, buf, several)
}

// updateValues returns the values of the two versions of an update, and caches the new one. They
// share what is equal in both if ShareDecoded is set.
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
	buf := r.delta.buffers.Get().(*deltaBuffers)
	defer r.delta.buffers.Put(buf)
	if old, err = r.oldDeltaValue(was, buf); err == nil {
		fresh, err = r.newDeltaValue(old, is, buf, several)
	}
	return old, fresh, err
}

// separateValues is updateValues for versions that share nothing mutable.
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

// decodeTogether decodes two versions at once. It reports false if one of them is decoded already,
// or on an error, which decoding them one by one returns again.
func (r *reader) decodeTogether(was, is *store.Object) (old, fresh any, ok bool) {
	if was.IsDecoded() || is.IsDecoded() || r.updates.has(was) || r.updates.has(is) || r.handlerCache.has(is) {
		return nil, nil, false
	}
	buf := versionBufferPool.Get().(*versionBuffers)
	defer buf.release()
	var err error
	if buf.was, buf.is, err = store.AppendVersions(was, is, buf.was[:0], buf.is[:0]); err != nil {
		return nil, nil, false
	}
	old, fresh, err = r.codec.DecodeVersions(buf.was, buf.is)
	return old, fresh, err == nil
}

// versionBuffers holds the bytes of two versions while they are decoded. Buffers are pooled, unless
// they have grown beyond maxVersionBuffers.
type versionBuffers struct{ was, is []byte }

const maxVersionBuffers = 1 << 20 // bytes of both

var versionBufferPool = sync.Pool{New: func() any { return new(versionBuffers) }}

func (buf *versionBuffers) release() {
	if cap(buf.was)+cap(buf.is) <= maxVersionBuffers {
		versionBufferPool.Put(buf)
	}
}

// cacheUpdate caches the value of a version that has just arrived, if the update cache admits it.
func (r *reader) cacheUpdate(o *store.Object, value any, several bool) {
	if r.updates.admit(o) {
		r.updates.put(cachedVersion{object: o, value: value}, several)
	}
}

// eventValue returns the value of a version for an event, from the update cache if it is there.
func (r *reader) eventValue(o *store.Object) (any, error) {
	if held, ok := r.updates.get(o); ok {
		return held.value, nil
	}
	return r.handlerValue(o)
}

// newSeparateValue is newValue for versions that share nothing mutable.
func (r *reader) newSeparateValue(o *store.Object, several bool) (any, error) {
	value, err := r.eventValue(o)
	if err == nil {
		r.cacheUpdate(o, value, several)
	}
	return value, err
}

// freshValue returns a copy of a version that nobody else has, because handlers may have changed
// theirs.
func (r *reader) freshValue(o *store.Object) (any, error) {
	if o.Size() > 0 {
		return o.Fresh()
	}
	value, err := o.DecodeOnce() // the store has it as a value, not as bytes
	if object, ok := value.(runtime.Object); ok && err == nil {
		return object.DeepCopyObject(), nil
	}
	return value, err
}

// oldDeltaValue returns the value of the old version, and leaves its fields or its bytes in buf.
func (r *reader) oldDeltaValue(was *store.Object, buf *deltaBuffers) (value any, err error) {
	buf.oldRaw, buf.oldFields = buf.oldRaw[:0], buf.oldFields[:0]
	if held, ok := r.updates.get(was); ok {
		buf.oldFields = append(buf.oldFields, held.fields...)
		return held.value, nil
	}
	if buf.oldRaw, err = was.AppendRaw(buf.oldRaw); err != nil {
		return nil, err
	}
	if was.IsDecoded() {
		return was.DecodeOnce()
	}
	if value, err = r.codec.DecodeShared(buf.oldRaw); err != nil {
		return was.DecodeOnce() // its error names the object
	}
	return value, nil
}

// newDeltaValue returns the value of the new version, which shares unchanged fields with old, and
// caches it.
func (r *reader) newDeltaValue(old any, is *store.Object, buf *deltaBuffers, several bool) (value any, err error) {
	if held, ok := r.updates.get(is); ok {
		return held.value, nil
	}
	if is.IsDecoded() {
		return is.DecodeOnce()
	}
	if buf.newRaw, err = is.AppendRaw(buf.newRaw[:0]); err != nil {
		return nil, err
	}
	value, ok := r.delta.decode(old, buf)
	if ok {
		value = r.codec.SetTypeMeta(value)
	} else {
		buf.newFields = buf.newFields[:0]
		if value, err = r.codec.DecodeShared(buf.newRaw); err != nil {
			return is.DecodeOnce()
		}
	}
	if r.updates.admit(is) {
		r.updates.put(cachedVersion{is, value, digests(buf.newFields)}, several)
	}
	return value, nil
}
