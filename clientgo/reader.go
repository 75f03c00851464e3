package clientgo

import (
	"context"
	"sync"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/store"
)

// reader returns the values of objects to readers and handlers, as the options require. The store
// caches decoded values. Safe for concurrent use.
type reader struct {
	store            *store.Store
	codec            *codec.Codec
	finalStates      *finalStates
	delta            *deltaDecoder // nil if versions share nothing
	private          bool
	mutationDetector *checks.MutationDetector // nil if off
	// sharesValues is set if both are nil: readers and handlers may receive the same value.
	sharesValues bool
}

func newReader(opts Options, s *store.Store, values *codec.Codec, finals *finalStates) *reader {
	r := &reader{store: s, codec: values, finalStates: finals, private: opts.PrivateCopies}
	if opts.ShareDecoded {
		r.delta = newDeltaDecoder(values)
	}
	if opts.DetectMutation {
		r.mutationDetector = checks.NewMutationDetector(nil)
	}
	r.sharesValues = !r.private && r.mutationDetector == nil
	return r
}

// value returns the value of an object for a reader. The result is shared unless PrivateCopies is
// set.
func (r *reader) value(o *store.Object) (any, error) { return r.applyOptions(o, o.Decoded) }

// valueOnce returns the value of an object for a caller that reads it once: it does not stay
// decoded.
func (r *reader) valueOnce(o *store.Object) (any, error) { return r.applyOptions(o, o.DecodeOnce) }

// handlerValue returns the value of a version for one of several handlers that receive it at about
// the same time, or for the only one; others is the number of the others. It is usually decoded
// once for all of them, and does not stay decoded.
func (r *reader) handlerValue(o *store.Object, others int) (any, error) {
	switch {
	case others == 0:
		return r.valueOnce(o)
	case !r.sharesValues:
		return r.value(o)
	}
	if value, _, ok := o.Cached(); ok {
		return value, nil
	}
	value, err := o.DecodeOnce()
	if err != nil {
		return nil, err
	}
	return r.store.CacheForHandlers(o, value, others), nil
}

// applyOptions decodes an object, copies it if PrivateCopies is set, and registers it with the
// mutation detector, unless the program has put it into the store itself and so may change it.
func (r *reader) applyOptions(o *store.Object, decode func() (any, error)) (any, error) {
	value, err := decode()
	if err != nil {
		return nil, err
	}
	if r.private {
		if own, ok := codec.Copy(value); ok {
			return own, nil
		}
	}
	if r.mutationDetector != nil && !o.Manual() {
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

// newValue returns the value of a version that has just arrived, and keeps it for the object's next
// change and for the other handlers.
func (r *reader) newValue(o *store.Object, others int) (any, error) {
	if !r.sharesValues || o.Size() == 0 {
		return r.valueOnce(o)
	}
	if r.delta == nil {
		return r.newSeparateValue(o, others)
	}
	buf := r.delta.buffers.Get().(*deltaBuffers)
	defer r.delta.release(buf)
	buf.oldRaw, buf.oldFields = buf.oldRaw[:0], buf.oldFields[:0]
	return r.newDeltaValue(nil, o, others, buf)
}

// updateValues returns the values of the two versions of an update, and keeps the new one in place
// of the old one. They share equal parts if ShareDecoded is set.
func (r *reader) updateValues(was, is *store.Object, others int) (old, fresh any, err error) {
	if !r.sharesValues || was.Size() == 0 || is.Size() == 0 {
		if old, err = r.valueOnce(was); err == nil {
			fresh, err = r.valueOnce(is)
		}
		return old, fresh, err
	}
	if r.delta == nil {
		old, fresh, err = r.separateValues(was, is, others)
	} else {
		old, fresh, err = r.deltaValues(was, is, others)
	}
	if err == nil {
		r.store.ReleaseLatest(was, others)
	}
	return old, fresh, err
}

// separateValues returns the values of the two versions of an update, and keeps the new one. They
// share nothing mutable.
func (r *reader) separateValues(was, is *store.Object, others int) (old, fresh any, err error) {
	if old, fresh, ok := r.decodeTogether(was, is); ok {
		r.store.AddDecodedMisses(2)
		return r.store.CacheForHandlers(was, old, others), r.keepNew(is, fresh, nil, others), nil
	}
	if old, err = r.handlerValue(was, others); err == nil {
		fresh, err = r.newSeparateValue(is, others)
	}
	return old, fresh, err
}

// keepNew keeps the value of an object's latest version for the next change and for the other
// handlers. It returns the value that all of them receive.
func (r *reader) keepNew(o *store.Object, value any, note func() any, others int) any {
	value = r.store.CacheForHandlers(o, value, others)
	r.store.CacheLatest(o, value, note)
	return value
}

// decodeTogether decodes two versions in one pass. It reports false if one of them is decoded
// already, or on an error, which decoding them separately returns again.
func (r *reader) decodeTogether(was, is *store.Object) (old, fresh any, ok bool) {
	if was.IsDecoded() || is.IsDecoded() {
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
// they grew beyond maxVersionBuffers.
type versionBuffers struct{ was, is []byte }

const maxVersionBuffers = 1 << 20 // bytes, of all buffers together

var versionBufferPool = sync.Pool{New: func() any { return new(versionBuffers) }}

func (buf *versionBuffers) release() {
	if cap(buf.was)+cap(buf.is) <= maxVersionBuffers {
		versionBufferPool.Put(buf)
	}
}

// newSeparateValue returns the value of a version that has just arrived, and keeps it for the
// object's next change and for the other handlers. It shares nothing mutable with other versions.
func (r *reader) newSeparateValue(o *store.Object, others int) (any, error) {
	value, err := r.handlerValue(o, others)
	if err == nil {
		r.store.CacheLatest(o, value, nil)
	}
	return value, err
}

// freshValue returns an unshared copy of a version, because handlers may have changed theirs. own
// is false if that is impossible, because the version is a value without a working DeepCopyObject.
// Then the result is the stored value and must not be changed.
func (r *reader) freshValue(o *store.Object) (value any, own bool, err error) {
	if o.Size() > 0 {
		value, err = o.DecodeCopy()
		return value, true, err
	}
	value, err = o.DecodeOnce() // the store has it as a value, not as bytes
	if err == nil {
		if duplicate, ok := codec.Copy(value); ok {
			return duplicate, true, nil
		}
	}
	return value, false, err
}

// deltaValues returns the values of the two versions of an update, and keeps the new one. They
// share equal parts.
func (r *reader) deltaValues(was, is *store.Object, others int) (old, fresh any, err error) {
	if others > 0 && was.IsDecoded() && is.IsDecoded() { // usually by another handler
		if old, err = r.handlerValue(was, others); err == nil {
			fresh, err = r.newSeparateValue(is, others)
		}
		return old, fresh, err
	}
	buf := r.delta.buffers.Get().(*deltaBuffers)
	defer r.delta.release(buf)
	if old, err = r.oldDeltaValue(was, others, buf); err == nil {
		fresh, err = r.newDeltaValue(old, is, others, buf)
	}
	return old, fresh, err
}

// oldDeltaValue returns the value of the old version, and stores its fields or its bytes in buf.
func (r *reader) oldDeltaValue(was *store.Object, others int, buf *deltaBuffers) (value any, err error) {
	buf.oldRaw, buf.oldFields = buf.oldRaw[:0], buf.oldFields[:0]
	value, note, taken := was.Cached()
	if fields, _ := note.([]wireField); len(fields) > 0 {
		buf.oldFields = append(buf.oldFields, fields...)
		return value, nil
	}
	if buf.oldRaw, err = was.AppendRaw(buf.oldRaw); err != nil || taken {
		return value, err
	}
	if value, err = r.codec.DecodeShared(buf.oldRaw); err != nil {
		return was.DecodeOnce() // its error names the object
	}
	r.store.AddDecodedMisses(1)
	return r.store.CacheForHandlers(was, value, others), nil
}

// newDeltaValue returns the value of the new version, which shares unchanged fields with old, and
// keeps it.
func (r *reader) newDeltaValue(old any, is *store.Object, others int, buf *deltaBuffers) (value any, err error) {
	if value, note, ok := is.Cached(); ok {
		r.store.CacheLatest(is, value, func() any { return note })
		return value, nil
	}
	if buf.newRaw, err = is.AppendRaw(buf.newRaw[:0]); err != nil {
		return nil, err
	}
	value, ok := r.delta.decode(old, buf)
	if !ok {
		buf.newFields = buf.newFields[:0]
		if value, err = r.codec.DecodeShared(buf.newRaw); err != nil {
			return is.DecodeOnce()
		}
	}
	r.store.AddDecodedMisses(1)
	return r.keepNew(is, value, func() any { return digests(buf.newFields) }, others), nil
}
