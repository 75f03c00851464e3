package clientgo

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// sink is the reflector.Sink of an informer. It writes the objects that the reflector receives to
// the store. It stores the bytes of a captured response unchanged. It encodes an object that a
// ListerWatcher or a transform returned; if the encoding would lose something, it stores the Go
// value instead. Only the reflector's goroutine uses the sink.
type sink struct {
	*store.Writer
	name      string // the informer's name, for errors
	store     *store.Store
	codec     *codec.Codec
	transform cache.TransformFunc // may be nil; does not change after the start
	pin       bool                // Options.PinDecoded: store every object as a value
	// syntheticVersions counts the versions that advanceVersion has created.
	syntheticVersions uint64
	renames           renames // the objects to which the transform gave another name or namespace
	meta              wire.Meta
	// sharesTransformed is true if handlers may receive the values that the transform returned,
	// without a copy.
	sharesTransformed bool
	// published is an empty store of client-go, or nil. The sink passes the informer's resourceVersion
	// to this store, and client-go publishes this resourceVersion as a metric.
	published bookmarker
	failures  transformLog
}

// Take implements reflector.Sink. If it cannot store an object, it logs the reason and keeps the
// previous version of the object, also in a relist. But if the transform fails for an object of a
// list, the list ends, as in client-go. If the transform excludes a version, Take keeps the
// previous version, but logs nothing.
func (s *sink) Take(t wire.EventType, m *wire.Meta, raw []byte, value any) error {
	namespace, name := m.Namespace, m.Name
	err := s.take(t, m, raw, value)
	if err == nil {
		s.renames.note(namespace, name, m, t == wire.Deleted)
	}
	if err == nil || errors.Is(err, store.ErrClosed) {
		return err
	}
	excluded := errors.Is(err, ErrExcluded)
	ends := !excluded && s.Replacing() && errors.Is(err, errTransform) && !errors.Is(err, errResult)
	if !excluded && !ends { // the error of a list has its own way to the program
		s.report(m, err)
	}
	if t != wire.Deleted {
		if bytes.Equal(m.Namespace, namespace) && bytes.Equal(m.Name, name) {
			s.renames.apply(m)
		}
		s.KeepHeld(m)
	}
	if excluded {
		return nil
	}
	return reflector.Refusal{Err: err, EndsList: ends}
}

func (s *sink) take(t wire.EventType, m *wire.Meta, raw []byte, object any) error {
	if object != nil {
		return s.takeObject(t, m, object)
	}
	switch {
	case t == wire.Deleted:
		return s.takeDeleted(m, raw)
	case s.transform == nil && !s.pin:
		return s.Put(m, raw)
	}
	if s.renames == nil {
		if unchanged, err := s.Unchanged(m, raw); unchanged || err != nil {
			return err // the store already has the transformed version
		}
	}
	value, err := s.codec.Decode(raw, nil)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return s.transformAndPut(m, raw, true, func() (any, error) { return s.transformed(value) })
}

// takeDeleted deletes the object of a DELETED event with captured bytes. A transform may have
// changed the object's name or namespace, so takeDeleted looks for the key under which the object
// is stored.
func (s *sink) takeDeleted(m *wire.Meta, raw []byte) error {
	if s.transform == nil {
		if len(raw) == 0 {
			return s.Delete(m, nil)
		}
		return s.DeleteAs(m, raw, nil)
	}
	value, err := s.codec.Decode(raw, nil)
	if err == nil {
		value, err = s.transformed(value)
	}
	if err == nil && s.rename(m, value) {
		return s.deleteAs(m, value)
	}
	s.renames.apply(m) // OnDelete then receives the previous version
	return s.Delete(m, nil)
}

// deleteAs deletes an object. value is its final state, which deleteAs encodes if possible.
func (s *sink) deleteAs(m *wire.Meta, value any) error {
	if raw := s.encoded(value); raw != nil {
		return s.DeleteAs(m, raw, nil)
	}
	return s.DeleteAs(m, nil, value)
}

// EndReplace implements reflector.Sink.
func (s *sink) EndReplace(resourceVersion string) {
	s.Writer.EndReplace(resourceVersion)
	s.renames.prune(s.store)
	s.publish()
}

// Progress implements reflector.Sink.
func (s *sink) Progress(resourceVersion string) {
	s.Writer.Progress(resourceVersion)
	s.publish()
}

// publish passes the store's resourceVersion to s.published, if that is set.
func (s *sink) publish() {
	if s.published != nil {
		s.published.Bookmark(s.ResourceVersion())
	}
}

// rename sets the name and namespace in m to the name and namespace of a transformed value. If this
// changes m, it allocates s.renames. It returns false if the value has no metadata.
func (s *sink) rename(m *wire.Meta, value any) bool {
	is, err := wire.IdentityOf(value)
	if err != nil {
		return false
	}
	if is.Name != string(m.Name) || is.Namespace != string(m.Namespace) {
		m.Namespace, m.Name = []byte(is.Namespace), []byte(is.Name)
		if s.renames == nil {
			s.renames = renames{}
		}
	}
	return true
}

// takeObject stores or deletes an object that the ListerWatcher returned, as the event type t
// requires; t is 0 for an item of a list.
func (s *sink) takeObject(t wire.EventType, m *wire.Meta, object any) error {
	if t != 0 {
		s.Flush() // the store must contain the previous events when held is read
	}
	transformed := func() (any, error) { return s.transformed(object) }
	if s.renames != nil { // the transform may have changed the key
		changed, err := s.transformed(copied(object))
		switch {
		case err == nil && s.rename(m, changed):
		case t == wire.Deleted: // delete the object even if the transform fails
			s.renames.apply(m)
		case err != nil:
			return fmt.Errorf("%w: %w", errTransform, err)
		}
		transformed = func() (any, error) { return changed, err }
	}
	held, ok := s.store.Get(string(wire.AppendKey(nil, m)))
	switch {
	case t == wire.Deleted:
		if ok && len(m.UID) > 0 && string(m.UID) != held.UID() && isBefore(m, held) {
			return nil // a repeated deletion of an earlier object of this name
		}
		return s.deleteObject(m, object, held, transformed)
	case ok && t != 0 && !s.Replacing() && len(m.UID) > 0 && held.UID() != "" && isBefore(m, held):
		return nil // a repeated event: an earlier watch may have received it
	case ok && s.repeats(t, m, object, held):
		m.UID, m.ResourceVersion = []byte(held.UID()), []byte(held.ResourceVersion())
		// The stored version may have a different content, although the versions are equal.
		received := s.encoded(object)
		if unchanged, err := s.Unchanged(m, received); unchanged || err != nil {
			return err
		}
		return s.transformAndPut(m, received, false, transformed)
	case ok:
		s.advanceVersion(m, held)
	}
	return s.transformAndPut(m, s.encoded(object), false, transformed)
}

// repeats reports whether a received object may be the version that is already stored. It returns
// false for an object that it cannot compare; the informer then passes the object to handlers, as
// client-go does.
func (s *sink) repeats(t wire.EventType, m *wire.Meta, object any, held *store.Object) bool {
	same := len(m.ResourceVersion) > 0 && string(m.ResourceVersion) == held.ResourceVersion() && string(m.UID) == held.UID()
	if t == 0 || t == wire.Added { // lists and initial events may repeat stored objects
		return same || s.unchanged(m, object, held)
	}
	// The events after a list that broke off may repeat stored objects too. An object without a uid
	// comes from a fake clientset, which changes objects without changing their versions.
	if held.UID() == "" || !same {
		return false
	}
	if s.encoded(object) != nil {
		return true // takeObject compares the bytes
	}
	value, err := held.Decoded()
	return s.transform == nil && err == nil && codec.Equal(object, value)
}

// deleteObject deletes the object of a DELETED event that the ListerWatcher returned. held is the
// version that is stored under the same key, or nil. OnDelete receives the object of the event. If
// the object cannot be transformed, or is older than held because the event is repeated, OnDelete
// receives held, if that is not nil.
func (s *sink) deleteObject(m *wire.Meta, object any, held *store.Object, transformed func() (any, error)) error {
	final := held == nil || (len(m.UID) == 0 || string(m.UID) == held.UID()) && !isBefore(m, held)
	if held != nil {
		m.UID = []byte(held.UID())
	}
	value, err := transformed()
	final = err == nil && s.rename(m, value) && final
	if held != nil {
		s.advanceVersion(m, held)
	}
	if final {
		return s.deleteAs(m, value)
	}
	return s.Delete(m, nil)
}

// copied returns a copy of an object, or the object itself if it cannot be copied.
func copied(object any) any {
	if duplicate, ok := codec.Copy(object); ok {
		return duplicate
	}
	return object
}

// encoded returns the bytes of an object, or nil if encoding it would lose something.
func (s *sink) encoded(object any) []byte {
	raw, _ := s.codec.Encode(object)
	return raw
}

// isBefore reports whether an object's resourceVersion is lower than the stored version's. It
// returns false if one of them is not a number.
func isBefore(m *wire.Meta, held *store.Object) bool {
	has, err := resourceversion.Parse(m.ResourceVersion)
	had, number := ownVersion(held)
	return err == nil && number && has < had
}

// ownVersion returns the resourceVersion in the metadata of a stored object, as a number. It
// returns false if the resourceVersion is not a number or cannot be read. The resourceVersion that
// the store records for the object may differ; see advanceVersion.
func ownVersion(held *store.Object) (uint64, bool) {
	if had, number := held.ResourceVersionNumber(); number {
		return had, true
	}
	value, err := held.Decoded()
	if err != nil {
		return 0, false
	}
	was, err := wire.IdentityOf(value)
	if err != nil {
		return 0, false
	}
	had, err := resourceversion.Parse(was.ResourceVersion)
	return had, err == nil
}

// unchanged reports whether a listed object equals the stored object. If there is a transform, it
// compares only the uid and the resourceVersion in the metadata of both objects. Otherwise it also
// compares the contents, because fake clientsets set no resourceVersions. It returns false for an
// object that codec.Equal cannot compare, and with a transform also for an object without a
// resourceVersion.
func (s *sink) unchanged(m *wire.Meta, object any, held *store.Object) bool {
	value, err := held.Decoded()
	if err != nil {
		return false
	}
	was, err := wire.IdentityOf(value)
	if err != nil || string(m.UID) != held.UID() || string(m.ResourceVersion) != was.ResourceVersion {
		return false
	}
	if s.transform != nil {
		return len(m.ResourceVersion) > 0
	}
	return codec.Equal(object, value)
}

// advanceVersion replaces the resourceVersion in m by a synthetic one, unless it is a number, and
// is higher than the stored version if that is a number too. The reason is that the store must
// accept events in the order in which the ListerWatcher sends them. A synthetic version is not a
// number, so the store never compares it. The resourceVersion in the object's metadata does not
// change.
func (s *sink) advanceVersion(m *wire.Meta, held *store.Object) {
	had, number := held.ResourceVersionNumber()
	has, err := resourceversion.Parse(m.ResourceVersion)
	if err == nil && (!number || has > had) {
		return
	}
	s.syntheticVersions++
	m.ResourceVersion = strconv.AppendUint([]byte(syntheticVersion), s.syntheticVersions, 10)
}

// syntheticVersion is the prefix of synthetic resourceVersions.
const syntheticVersion = "weir/"
