package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// Mirror lists and watches T's objects and writes them to a sink, which replaces an informer's
// memory. Mirror itself keeps only one object at a time in memory. Like an informer, Mirror resumes
// watches, lists again, waits between retries and calls OnStatus. No answer of the server ends it.
// Mirror blocks until ctx ends, and then returns nil, or until the sink fails, and then returns the
// sink's error.
//
// The options may have at most one namespace and one selector. With several, a replace for one
// namespace or selector would remove the objects of the others. And when an object no longer
// matches one selector, the sink could not detect whether it still matches another. Mirror also
// uses the options Name, Resource, Scheme, Shard, DropFields, ListWatch and OnStatus. It rejects
// Indexes and ignores the other options. It returns ErrInvalidOptions for a nil cfg, a nil sink or
// invalid options, or an error about the content of cfg.
func Mirror[T Object](ctx context.Context, cfg *rest.Config, opts Options, sink Sink) error {
	switch {
	case cfg == nil:
		return errNoConfig
	case sink == nil:
		return optionsError(errors.New("no Sink"))
	}
	typ, err := objectTypeOf[T](opts)
	if err != nil {
		return err
	}
	return mirror(ctx, opts, typ, sink, func(s scope) (src source.Source, c reflector.Config, err error) {
		if c, err = typ.reflectorConfig(opts); err == nil {
			src, err = typ.source(cfg, s, source.Options{})
		}
		return src, c, err
	})
}

// mirror writes the objects of the source that open returns to a sink. mirror calls open after it
// has checked opts. The errors start with the name in opts or of the type.
func mirror(ctx context.Context, opts Options, typ *objectType, sink Sink, open func(scope) (source.Source, reflector.Config, error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", cmp.Or(opts.Name, typ.name(), typ.codec.Type().String()), err)
		}
	}()
	scopes, err := scopesOf(opts)
	switch {
	case err != nil:
		return err
	case len(scopes) > 1:
		return optionsError(fmt.Errorf("%d namespaces and selectors for one Sink: reflect each to a separate Sink", len(scopes)))
	case len(opts.Indexes) > 0:
		return optionsError(fmt.Errorf("a Sink cannot have Indexes"))
	}
	scope := scopes[0]
	src, tuning, err := open(scope)
	if err != nil {
		return err
	}
	tuning.Query.LabelSelector, tuning.Query.FieldSelector = scope.selector.Label, scope.selector.Field
	if tell := onStatus(opts.OnStatus); tell != nil {
		tuning.OnStatus = func(s reflector.Status) {
			s.Namespace, s.Selector = scope.namespace, scope.String()
			tell(s)
		}
	}
	if src, ok := src.(interface{ CloseIdleConnections() }); ok {
		defer src.CloseIdleConnections() // each open connection costs two goroutines and its buffers
	}
	to := &recordSink{sink: sink, objectType: typ}
	if to.at, err = sink.ResourceVersion(); err != nil {
		return err
	}
	to.next = to.at
	_ = reflector.New(src, to, tuning).Run(ctx) // returns when ctx ends or to.err is set
	to.AbortReplace()                           // does nothing unless a replace is active
	return to.err
}

// recordSink is a reflector.Sink that passes records to the user's Sink. Only the reflector's
// goroutine uses it. After the user's Sink has returned an error, recordSink calls only the Sink's
// AbortReplace.
type recordSink struct {
	sink       Sink
	objectType *objectType
	err        error
	at         string // the version that the sink received last; "" if none
	next       string // the version that the next Commit will pass
	dirty      bool   // there were changes since the last Commit
	replacing  bool
	// unversioned is true if the last replace had no version. The order of later changes is then
	// unknown, and no version can describe the state after them.
	unversioned bool
}

// do calls the user's sink, unless the sink has already failed.
func (s *recordSink) do(call func() error) {
	if s.err == nil {
		s.err = call()
	}
}

func (s *recordSink) ResourceVersion() string { return s.at }

func (s *recordSink) Take(t wire.EventType, m *wire.Meta, object []byte, value any) error {
	r := s.record(m, object)
	if value != nil {
		typed, ok := value.(Object)
		if !ok || reflect.TypeOf(value) != s.objectType.codec.Type() {
			return fmt.Errorf("%T instead of %s", value, s.objectType.codec.Type())
		}
		r.Value, r.Encoding = value, 0
		if stated := typed.GetObjectKind().GroupVersionKind(); !stated.Empty() {
			r.Kind = stated
		}
	}
	s.dirty = true
	if t == wire.Deleted {
		s.do(func() error { return s.sink.Delete(r) })
	} else {
		s.do(func() error { return s.sink.Put(r) })
	}
	return s.err
}

// DeleteNamesake deletes the object with m's namespace and name. The rest of m describes a new
// object that took the name, so the record has only namespace and name.
func (s *recordSink) DeleteNamesake(m *wire.Meta, _ []byte) error {
	r := s.record(&wire.Meta{Namespace: m.Namespace, Name: m.Name}, nil)
	s.dirty = true
	s.do(func() error { return s.sink.Delete(r) })
	return s.err
}

func (s *recordSink) record(m *wire.Meta, object []byte) Record {
	gvk := s.objectType.gvk
	if item := s.objectType.codec.ItemType(); item.Kind != "" {
		gvk = schema.FromAPIVersionAndKind(item.APIVersion, item.Kind)
	}
	return recordOf(m, gvk, s.objectType.encoding, object)
}

func (s *recordSink) Flush() int {
	if s.replacing || !s.dirty && s.next == s.at {
		return 0
	}
	if s.unversioned {
		s.next = ""
	}
	s.do(func() error { return s.sink.Commit(s.next) })
	s.at, s.dirty = s.next, false
	return 0
}

// Progress sets the version of the next Commit. It calls Commit immediately if the sink has
// received no change since the last Commit.
func (s *recordSink) Progress(resourceVersion string) {
	if s.next = resourceVersion; !s.dirty {
		s.Flush()
	}
}

// Coalesced makes Commit pass "" while the sink's state mixes several versions, because a watch
// could not resume from such a state.
func (s *recordSink) Coalesced(upTo string) {
	if upTo != "" {
		s.next = ""
	}
}

func (s *recordSink) BeginReplace(bool) {
	s.AbortReplace()
	s.Flush()
	s.replacing = true
	s.do(s.sink.BeginReplace)
}

func (s *recordSink) EndReplace(resourceVersion string) {
	s.do(func() error { return s.sink.EndReplace(resourceVersion) })
	if s.err == nil { // otherwise the replace stays active, and AbortReplace ends it
		s.at, s.next, s.replacing, s.dirty = resourceVersion, resourceVersion, false, false
		s.unversioned = resourceVersion == ""
	}
}

func (s *recordSink) AbortReplace() {
	if !s.replacing {
		return
	}
	s.replacing, s.dirty = false, false
	if err := s.sink.AbortReplace(); s.err == nil {
		s.err = err
	}
}

func (s *recordSink) Err() error { return s.err }

// These methods do nothing: the sink has no other writer and no reader that could lag.
func (s *recordSink) ListRequested()         {}
func (s *recordSink) Outdated() bool         { return false }
func (s *recordSink) WhenOutdated(func())    {}
func (s *recordSink) Behind() (bool, uint64) { return false, 0 }
