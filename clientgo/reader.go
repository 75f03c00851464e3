package clientgo

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/mutation"
	"github.com/weirproject/weir/internal/store"
)

// reader gives the values of objects to those who read them, as the options say.
type reader struct {
	codec    *codec
	finals   *finals
	pairs    *pairs  // nil: versions share nothing
	recent   *recent // nil: values are not to be shared
	handed   *handed // nil like recent
	private  bool
	detector *mutation.Detector // nil: off
}

func newReader(opts Options, codec *codec, finals *finals) *reader {
	r := &reader{codec: codec, finals: finals, private: opts.PrivateCopies}
	if opts.ShareDecoded {
		r.pairs = newPairs(codec.goType)
	}
	if opts.DetectMutation {
		r.detector = mutation.New(nil)
	}
	if !r.private && r.detector == nil {
		r.recent = newRecent(opts.DecodedIdle, opts.DecodedBudget)
		r.handed = newHanded(opts.DecodedBudget)
	}
	return r
}

// value decodes an object, unless a handler has just been handed it. Unless copies are private it is shared.
func (r *reader) value(o *store.Object) (any, error) {
	if r.recent != nil {
		if value, ok := o.Held(); ok {
			return value, nil
		}
		if held, ok := r.recent.get(o); ok {
			return held.value, nil
		}
		if value, ok := r.handed.get(o); ok {
			return value, nil
		}
	}
	return r.give(o, o.Decoded)
}

// look is value for somebody who reads the object once.
func (r *reader) look(o *store.Object) (any, error) {
	return r.give(o, o.DecodeOnce)
}

// lookShared is look for one of several handlers that are to see a version about now: it is decoded once for all of them, mostly.
func (r *reader) lookShared(o *store.Object) (any, error) {
	if r.handed == nil {
		return r.value(o)
	}
	if value, ok := r.handed.get(o); ok {
		return value, nil
	}
	value, err := r.lookHeld(o)
	if err != nil || o.Size() == 0 {
		return value, err
	}
	return r.handed.share(o, value), nil
}

// lookAlone is look for the one handler that there is.
func (r *reader) lookAlone(o *store.Object) (any, error) {
	if r.handed != nil {
		if value, ok := r.handed.take(o); ok {
			return value, nil
		}
	}
	return r.look(o)
}

// hand keeps the value of a version for the handlers that are about to be handed it.
func (r *reader) hand(o *store.Object, value any) {
	if r.handed != nil && r.pairs == nil {
		r.handed.share(o, value)
	}
}

func (r *reader) give(o *store.Object, decode func() (any, error)) (any, error) {
	value, err := decode()
	if err != nil {
		return nil, err
	}
	if r.private {
		if object, ok := value.(runtime.Object); ok {
			return object.DeepCopyObject(), nil
		}
	}
	if r.detector != nil {
		r.detector.Add(o.Key(), value)
	}
	return value, nil
}

// detect watches over the shared values until the context ends.
func (r *reader) detect(ctx context.Context) {
	if r.detector != nil {
		r.detector.Run(ctx)
	}
}

// close lets go of what is held for handlers.
func (r *reader) close() {
	r.finals.close()
	if r.recent != nil {
		r.recent.close()
		r.handed.close()
	}
}
