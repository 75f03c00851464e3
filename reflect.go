package weir

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// Reflect lists and watches T's objects and writes them to a sink in place of an informer's memory.
// It holds one object at a time. It lists, resumes, lists again and paces itself as an informer
// does, and OnStatus tells how it fares: nothing that a server does ends it. It blocks until ctx
// ends, and then returns nil, or until the sink fails, and then returns its error.
//
// The options may have at most one namespace and one selector: a sink could not tell which of
// several an object has left. Reflect also reads Name, Resource, Scheme, Shard, Drop, ListWatch and
// OnStatus, and ignores the other options but Indexes, which a sink cannot have. It returns
// ErrOptions if the options make no sense, or an error that says what is wrong with cfg.
func Reflect[T Object](ctx context.Context, cfg *rest.Config, opts Options, sink Sink) error {
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
	name := opts.Name
	if name == "" {
		name = typ.name()
	}
	if err := reflectTo(ctx, cfg, opts, typ, sink); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func reflectTo(ctx context.Context, cfg *rest.Config, opts Options, typ *objectType, sink Sink) error {
	scopes, err := scopesOf(opts)
	switch {
	case err != nil:
		return err
	case len(scopes) > 1:
		return optionsError(fmt.Errorf("%d namespaces and selectors for one Sink: Reflect each to one of its own", len(scopes)))
	case len(opts.Indexes) > 0:
		return optionsError(fmt.Errorf("a Sink has no Indexes"))
	}
	tuning, err := typ.reflectorConfig(opts)
	if err != nil {
		return err
	}
	scope := scopes[0]
	if tell := onStatus(opts.OnStatus); tell != nil {
		tuning.OnStatus = func(s reflector.Status) {
			tell(engine.Status{Status: s, Namespace: scope.namespace, Selector: scope.String()})
		}
	}
	src, err := typ.source(cfg, scope, source.Options{})
	if err != nil {
		return err
	}
	if src, ok := src.(interface{ CloseIdleConnections() }); ok {
		defer src.CloseIdleConnections() // each keeps two goroutines and its buffers
	}
	to := &recordSink{sink: sink, objectType: typ}
	if to.at, err = sink.ResourceVersion(); err != nil {
		return err
	}
	to.next = to.at
	_ = reflector.New(src, to, tuning).Run(ctx) // ends with ctx or to.err
	to.AbortReplace()                           // the one that the sink failed to end
	return to.err
}

// recordSink is the reflector's Sink that passes records on to one of a user's. Only Run's
// goroutine uses it. It calls nothing after the first error, except AbortReplace.
type recordSink struct {
	sink       Sink
	objectType *objectType
	err        error
	at         string // what the sink was told last that it is current to
	next       string // what the next Commit tells
	dirty      bool   // there were changes since the last
	replacing  bool
	// unversioned is set if the last replace had no version: the changes after it are in no order
	// that one of them could stand for.
	unversioned bool
}

// do calls the sink, unless it has failed.
func (s *recordSink) do(call func() error) {
	if s.err == nil {
		s.err = call()
	}
}

func (s *recordSink) ResourceVersion() string { return s.at }

func (s *recordSink) Take(t wire.EventType, m *wire.Meta, object []byte, _ any) error {
	r := s.record(m, object)
	s.dirty = true
	if t == wire.Deleted {
		s.do(func() error { return s.sink.Delete(r) })
	} else {
		s.do(func() error { return s.sink.Put(r) })
	}
	return s.err
}

// DeleteNamesake passes the deletion on without what the object was: the metadata at hand is
// another's.
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

// Progress commits at once if there is nothing to come before it.
func (s *recordSink) Progress(resourceVersion string) {
	if s.next = resourceVersion; !s.dirty {
		s.Flush()
	}
}

// Coalesced leaves what is committed without a version to resume from until it is the state of one.
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
	if s.err == nil { // else it is still to be aborted
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

// These methods have nothing to do: nobody else writes to the sink, and nobody reads it besides.
func (s *recordSink) ListRequested()         {}
func (s *recordSink) Outdated() bool         { return false }
func (s *recordSink) WhenOutdated(func())    {}
func (s *recordSink) Behind() (bool, uint64) { return false, 0 }
