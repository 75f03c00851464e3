package clientgo

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
)

// reader returns decoded objects to readers and handlers. It applies the options PrivateCopies and
// DetectMutation. It is safe for concurrent use.
type reader struct {
	store            *store.Store
	codec            *codec.Codec
	private          bool
	mutationDetector *checks.MutationDetector // nil if DetectMutation is off
}

func newReader(opts Options, s *store.Store, values *codec.Codec) *reader {
	r := &reader{store: s, codec: values, private: opts.PrivateCopies}
	if opts.DetectMutation {
		r.mutationDetector = checks.NewMutationDetector(nil)
	}
	return r
}

// value returns an object's decoded value for a caller that reads the store. The value is shared
// unless PrivateCopies is set.
func (r *reader) value(o *store.Object) (any, error) {
	value, err := o.Decoded()
	if err != nil {
		return nil, err
	}
	return r.applyOptions(o, value), nil
}

// values returns the decoded old version (was) and new version (is) of a change, for a handler. A
// version that the change lacks is nil. The values are shared unless PrivateCopies is set.
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

// applyOptions copies a value if PrivateCopies is set. Otherwise it registers the value with the
// mutation detector, unless the program has written the object to the store itself: the program may
// change that object.
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

// runMutationDetector compares shared values with their copies until ctx ends. It does nothing if
// DetectMutation is off.
func (r *reader) runMutationDetector(ctx context.Context) {
	if r.mutationDetector != nil {
		r.mutationDetector.Run(ctx)
	}
}

// lastValue returns the last stored version of a deleted object.
func (r *reader) lastValue(ch *store.Change) (any, error) {
	value, _, err := r.values(&store.Change{Revision: ch.Revision, Old: ch.Old})
	return value, err
}

// deletedValue returns the final state of a deleted object. If the final state is unknown or cannot
// be decoded, it returns the last stored version. The returned version has the resourceVersion of
// the deletion, unless the deletion has none, or the version's metadata cannot be copied.
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

// tombstone returns the argument of OnDelete for an object whose final state is unknown.
func (r *reader) tombstone(ch *store.Change) cache.DeletedFinalStateUnknown {
	value, err := r.lastValue(ch)
	if err != nil {
		value = r.placeholder(ch.Old)
	}
	return cache.DeletedFinalStateUnknown{Key: ch.Key(), Obj: value}
}
