package weir

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/store"
)

// reader returns decoded objects to callers, with the PrivateCopies and DetectMutation of its
// options.
type reader struct {
	store    *store.Store
	private  bool
	detector *checks.MutationDetector // nil if DetectMutation is off
}

func newReader(opts Options) *reader {
	r := &reader{private: opts.PrivateCopies}
	if opts.DetectMutation || checks.DetectMutations() {
		r.detector = checks.NewMutationDetector(nil)
	}
	return r
}

// detectMutation compares returned objects with their copies until ctx ends. It does nothing if
// DetectMutation is off.
func (r *reader) detectMutation(ctx context.Context) {
	if r.detector != nil {
		r.detector.Run(ctx)
	}
}

// object returns the decoded object to a caller that reads it. The object is shared, unless
// PrivateCopies is set.
func (r *reader) object(o *store.Object) (any, error) {
	return r.applyOptions(o, (*store.Object).Decoded)
}

// handlerValue returns the decoded object to a handler. The object is shared, unless PrivateCopies
// is set. After handlerValue, unlike after object, the store does not keep the decoded object.
func (r *reader) handlerValue(o *store.Object) (any, error) {
	return r.applyOptions(o, func(o *store.Object) (any, error) {
		_, value, err := r.store.Values(&store.Change{Revision: o.Revision(), New: o})
		return value, err
	})
}

func (r *reader) applyOptions(o *store.Object, decode func(*store.Object) (any, error)) (value any, err error) {
	if r.private {
		return r.copy(o)
	}
	if value, err = decode(o); err != nil {
		return nil, err
	}
	if r.detector != nil {
		r.detector.Add(o.Key(), value)
	}
	return value, nil
}

// copy decodes a version for one caller, who may modify it.
func (r *reader) copy(o *store.Object) (any, error) { return o.DecodeCopy() }

// index returns an index function that calls fn. If DetectMutation is on, the function also
// registers fn's argument with the detector.
func (r *reader) index(fn func(object any) ([]string, error)) func(any) ([]string, error) {
	if r.detector == nil {
		return fn
	}
	return func(object any) ([]string, error) {
		if m, err := meta.Accessor(object); err == nil {
			r.detector.Add(strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/"), object)
		}
		return fn(object)
	}
}
