package clientgo

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
)

// reader returns the values of objects to readers and handlers, as the options require. The store
// caches decoded values. Safe for concurrent use.
type reader struct {
	store            *store.Store
	codec            *codec.Codec
	private          bool
	mutationDetector *checks.MutationDetector // nil if off
}

func newReader(opts Options, s *store.Store, values *codec.Codec) *reader {
	r := &reader{store: s, codec: values, private: opts.PrivateCopies}
	if opts.DetectMutation {
		r.mutationDetector = checks.NewMutationDetector(nil)
	}
	return r
}

// value returns the value of an object for a reader. The result is shared unless PrivateCopies is
// set.
func (r *reader) value(o *store.Object) (any, error) {
	value, err := o.Decoded()
	if err != nil {
		return nil, err
	}
	return r.applyOptions(o, value), nil
}

// values returns the values of a change's versions for a handler, nil for a version that the change
// lacks. The results are shared unless PrivateCopies is set.
func (r *reader) values(ch *store.Change) (was, is any, err error) {
	if was, is, err = r.store.Values(ch); err != nil {
		return nil, nil, err
	}
	if ch.New != nil {
		is = r.applyOptions(ch.New, is)
	}
	switch ch.Old {
	case nil:
	case ch.New:
		was = is
	default:
		was = r.applyOptions(ch.Old, was)
	}
	return was, is, nil
}

// applyOptions copies a value if PrivateCopies is set, and registers it with the mutation detector,
// unless the program has put it into the store itself and so may change it.
func (r *reader) applyOptions(o *store.Object, value any) any {
	if r.private {
		if own, ok := codec.Copy(value); ok {
			return own
		}
	}
	if r.mutationDetector != nil && !o.Manual() {
		r.mutationDetector.Add(o.Key(), value)
	}
	return value
}

// runMutationDetector checks shared values for changes until the context ends.
func (r *reader) runMutationDetector(ctx context.Context) {
	if r.mutationDetector != nil {
		r.mutationDetector.Run(ctx)
	}
}

// lastValue returns the last version of a deleted object.
func (r *reader) lastValue(ch *store.Change) (any, error) {
	value, _, err := r.values(&store.Change{Revision: ch.Revision, Old: ch.Old})
	return value, err
}

// deletedValue returns the state in which an object was deleted. If that is not known, or cannot be
// decoded, it returns the last version with the deletion's resourceVersion, if that is a number. A
// value whose metadata cannot be copied is returned unchanged.
func (r *reader) deletedValue(ch *store.Change) (any, error) {
	if ch.Final != nil {
		if value, err := r.value(ch.Final); err == nil {
			return value, nil
		}
	}
	value, err := r.lastValue(ch)
	if err == nil && ch.ResourceVersion != 0 {
		value = withResourceVersion(value, resourceversion.Format(ch.ResourceVersion))
	}
	return value, err
}

// tombstone returns the argument of OnDelete if the final state is unknown.
func (r *reader) tombstone(ch *store.Change) cache.DeletedFinalStateUnknown {
	value, err := r.lastValue(ch)
	if err != nil {
		value = r.placeholder(ch.Old)
	}
	return cache.DeletedFinalStateUnknown{Key: ch.Key(), Obj: value}
}
