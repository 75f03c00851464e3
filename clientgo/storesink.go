package clientgo

import (
	"context"
	"fmt"
	"slices"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/wire"
)

// StreamingStore is an optional interface of a store that is passed to a Reflector. Such a store
// receives the objects of the first list one by one while the list arrives, instead of all objects
// with Replace. Later lists still become calls of Replace, so that a list that fails changes
// nothing.
type StreamingStore interface {
	cache.ReflectorStore
	// BeginList starts the first list, or starts it again after a list that failed midway. The store
	// then already contains objects of the failed list.
	BeginList()
	// AddListed receives an object of the list. It may receive the same object twice. After an error,
	// the Reflector reports the error to the watch error handler and lists again.
	AddListed(obj any) error
	// EndList ends the list. Objects that AddListed has not received since BeginList do not exist on
	// the server. An error has the same effect as an error of Replace.
	EndList(resourceVersion string) error
}

// storeSink is a reflector.Sink that writes to the store of a Reflector. Only the goroutine of the
// internal reflector uses it.
type storeSink struct {
	reflector *Reflector
	core      *reflector.Reflector // the reflector that writes to this sink
	context   context.Context
	onSynced  func() // called after the first list
	err       error  // the error of the store that ends the reflector's Run
	version   string // the store's resourceVersion; "" before the first list
	event     string // the resourceVersion of the last event
	synced    bool

	replacing bool
	streaming StreamingStore // receives the objects of the current list, or is nil
	// listed contains the objects of the current list if streaming is nil. index contains their
	// positions in listed, because a page that broke off is received twice.
	listed []any
	index  map[listedKey]int
}

// listedKey identifies an object of a list. A list of several kinds or clusters may have several
// objects of one name, which the store's KeyFunc distinguishes.
type listedKey struct{ name, uid string }

func (s *storeSink) ResourceVersion() string { return s.version }

// Take implements reflector.Sink. After an error of the store it returns a reflector.Refusal, so
// that no list follows, as with client-go.
func (s *storeSink) Take(t wire.EventType, m *wire.Meta, raw []byte, value any) (err error) {
	if s.err != nil {
		return s.err
	}
	key := string(wire.AppendKey(nil, m))
	switch {
	case value != nil:
	case t == wire.Deleted && len(raw) == 0:
		value = cache.DeletedFinalStateUnknown{Key: key}
	default:
		if value, err = s.reflector.codec.Decode(raw, nil); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
	}
	if s.replacing {
		return s.list(t, listedKey{key, string(m.UID)}, value)
	}
	s.event = string(m.ResourceVersion)
	store := s.reflector.store
	switch t {
	case wire.Added:
		err = store.Add(value)
	case wire.Deleted:
		err = store.Delete(value)
	default:
		err = store.Update(value)
	}
	if err == nil {
		return nil
	}
	if s.context.Err() == nil {
		utilruntime.HandleErrorWithContext(s.context, err, "The store refused a watch event", "reflector", s.reflector.Name(), "type", t, "key", key)
	}
	return reflector.Refusal{Err: err}
}

// list adds an object to the current list.
func (s *storeSink) list(t wire.EventType, key listedKey, value any) error {
	if s.streaming != nil {
		if err := s.streaming.AddListed(value); err != nil {
			s.fail(err)
		}
		return s.err
	}
	at, ok := s.index[key]
	switch {
	case t == wire.Deleted:
		if delete(s.index, key); ok {
			s.listed[at] = nil
		}
	case ok:
		s.listed[at] = value
	default:
		s.index[key] = len(s.listed)
		s.listed = append(s.listed, value)
	}
	return nil
}

func (s *storeSink) fail(err error) { s.err = fmt.Errorf("unable to sync list result: %w", err) }

func (s *storeSink) BeginReplace(bool) {
	s.replacing, s.streaming, s.listed, s.index = true, nil, []any{}, map[listedKey]int{}
	if store, ok := s.reflector.store.(StreamingStore); ok && s.reflector.version.Load() == nil {
		s.streaming = store
		store.BeginList()
	}
}

func (s *storeSink) AbortReplace() {
	s.replacing, s.streaming, s.listed, s.index = false, nil, nil, nil
}

// EndReplace passes the list to the store. It fails if the list had items that could not be read:
// without them, the store would remove their objects.
func (s *storeSink) EndReplace(resourceVersion string) {
	streaming, objects := s.streaming, s.listed
	s.AbortReplace()
	if status := s.core.Status(); status.Skipped > 0 {
		s.fail(status.SkippedErr)
		return
	}
	var err error
	if streaming != nil {
		err = streaming.EndList(resourceVersion)
	} else {
		objects = slices.DeleteFunc(objects, func(object any) bool { return object == nil })
		err = s.reflector.store.Replace(objects, resourceVersion)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.version, s.event = resourceVersion, resourceVersion
	s.reflector.version.Store(&resourceVersion)
	if !s.synced {
		s.synced = true
		s.onSynced()
	}
}

// Progress passes the version of a bookmark to the store. A version that is not the version of the
// last event is the version of a bookmark.
func (s *storeSink) Progress(resourceVersion string) {
	store := s.reflector.store
	s.version = resourceVersion
	s.reflector.version.Store(&resourceVersion)
	if b, ok := store.(interface{ Bookmark(string) error }); ok && resourceVersion != s.event {
		if err := b.Bookmark(resourceVersion); err != nil {
			utilruntime.HandleErrorWithContext(s.context, err, "The store refused a bookmark", "reflector", s.reflector.Name())
		}
		s.event = resourceVersion
	}
	if u, ok := store.(cache.ResourceVersionUpdater); ok {
		u.UpdateResourceVersion(resourceVersion)
	}
}

func (s *storeSink) Err() error { return s.err }

// These methods do nothing: the store receives every event immediately, has no other writer, and a
// Reflector has no shard.
func (s *storeSink) Flush() int                              { return 0 }
func (s *storeSink) Coalesced(string)                        {}
func (s *storeSink) DeleteNamesake(*wire.Meta, []byte) error { return nil }
func (s *storeSink) ListRequested()                          {}
func (s *storeSink) Outdated() bool                          { return false }
func (s *storeSink) WhenOutdated(func())                     {}
func (s *storeSink) Behind() (bool, uint64)                  { return false, 0 }
