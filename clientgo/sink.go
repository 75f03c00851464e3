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

// sink is the reflector's Sink. It writes the objects that an informer's reflector receives to the
// store. It stores captured bytes unchanged. It encodes returned objects if the encoding loses
// nothing, and stores them as values otherwise. Only the reflector's goroutine uses it.
type sink struct {
	*store.Writer
	name      string // of the informer, for errors
	store     *store.Store
	codec     *codec.Codec
	transform cache.TransformFunc // nil for none; set before the start
	pin       bool                // store every object as a value
	// syntheticVersions counts the versions made up for objects whose own versions do not increase.
	syntheticVersions uint64
	renames           renames // objects to which the transform gave another name or namespace
	meta              wire.Meta
	// sharesTransformed is set if handlers may receive the results of the transform themselves.
	sharesTransformed bool
	// published is an empty store of client-go's, which publishes the resourceVersion that it
	// receives. It may be nil.
	published cache.Store
	failures  transformLog
}

// Take implements reflector.Sink. It leaves out and reports an object that it cannot store, because
// no other log may explain why it is missing. The previous version stays, also in a relist. The
// same applies to a version that the transform excludes, but that is not reported.
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
	if !excluded {
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
	return reflector.Refusal{Err: err}
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
			return err // the version is stored, and was transformed before
		}
	}
	value, err := s.codec.Decode(raw)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return s.transformAndPut(m, raw, func() (any, error) { return s.transformed(value) })
}

// takeDeleted handles a DELETED event. A transform may have given the object another key.
func (s *sink) takeDeleted(m *wire.Meta, raw []byte) error {
	if s.transform == nil {
		if len(raw) == 0 {
			return s.Delete(m, nil)
		}
		return s.DeleteAs(m, raw, nil)
	}
	value, err := s.codec.Decode(raw)
	if err == nil {
		value, err = s.transformed(value)
	}
	if err == nil && s.rename(m, value) {
		return s.deleteAs(m, value)
	}
	s.renames.apply(m) // the object is deleted anyway, and OnDelete receives the previous version
	return s.Delete(m, nil)
}

// deleteAs deletes an object whose final state is value, encoded if possible.
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

// publish publishes the store's resourceVersion.
func (s *sink) publish() {
	if s.published != nil {
		s.published.Bookmark(s.ResourceVersion())
	}
}

// rename sets m's name and namespace to those of a transformed value. If they differ, it sets
// renames. It returns false if the value has no metadata.
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

// takeObject handles an object that the ListerWatcher returned.
func (s *sink) takeObject(t wire.EventType, m *wire.Meta, object any) error {
	if t != 0 {
		s.Flush() // the store needs the previous events first
	}
	transformed := func() (any, error) { return s.transformed(object) }
	if s.renames != nil { // only the transform knows the stored key
		changed, err := s.transformed(copied(object))
		switch {
		case err == nil && s.rename(m, changed):
		case t == wire.Deleted: // the object is deleted anyway
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
		return nil // a repeated event; a watch that breaks off here resumes after it
	case ok && s.repeats(t, m, object, held):
		m.UID, m.ResourceVersion = []byte(held.UID()), []byte(held.ResourceVersion())
		// The version is stored, and was transformed before. Its content may still differ.
		received := s.encoded(object)
		if unchanged, err := s.Unchanged(m, received); unchanged || err != nil {
			return err
		}
		return s.transformAndPut(m, received, transformed)
	case ok:
		s.advanceVersion(m, held)
	}
	return s.transformAndPut(m, s.encoded(object), transformed)
}

// repeats reports whether a received object is the stored version. A change that cannot be compared
// is new, as with client-go.
func (s *sink) repeats(t wire.EventType, m *wire.Meta, object any, held *store.Object) bool {
	same := len(m.ResourceVersion) > 0 && string(m.ResourceVersion) == held.ResourceVersion() && string(m.UID) == held.UID()
	if t == 0 || t == wire.Added { // a list or initial events may repeat the stored objects
		return same || s.unchanged(m, object, held)
	}
	// So may the changes after a list that broke off. Fake clientsets, which set no uid, change
	// objects without new versions.
	if held.UID() == "" || !same {
		return false
	}
	if s.encoded(object) != nil {
		return true // contents are compared by their bytes
	}
	value, err := held.Decoded()
	return s.transform == nil && err == nil && codec.Equal(object, value)
}

// deleteObject handles the returned object of a DELETED event. held is the stored version under its
// key, or nil. OnDelete receives the returned object, unless the object cannot be transformed or is
// older than held, as in a repeated event.
func (s *sink) deleteObject(m *wire.Meta, object any, held *store.Object, transformed func() (any, error)) error {
	final := held != nil && (len(m.UID) == 0 || string(m.UID) == held.UID()) && !isBefore(m, held)
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

// copied returns a copy of a returned object, which a transform may change. An object that cannot
// be copied is returned itself.
func copied(object any) any {
	if duplicate, ok := codec.Copy(object); ok {
		return duplicate
	}
	return object
}

// encoded returns the bytes of a returned object, or nil if it cannot be encoded.
func (s *sink) encoded(object any) []byte {
	raw, _ := s.codec.Encode(object)
	return raw
}

// isBefore reports whether the resourceVersions of an object and of the stored one are numbers, and
// the object's is lower.
func isBefore(m *wire.Meta, held *store.Object) bool {
	has, err := resourceversion.Parse(m.ResourceVersion)
	had, number := ownVersion(held)
	return err == nil && number && has < had
}

// ownVersion returns the number of a stored object's own resourceVersion, and false if it is not a
// number or cannot be read. The store's version of the object may be made up; see advanceVersion.
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

// unchanged reports whether a listed object equals the stored one, if the stored resourceVersion
// was made up or is missing: fake clientsets set none. It compares the objects, unless the stored
// one is the result of a transform. An object that codec.Equal cannot compare counts as changed.
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

// advanceVersion makes up a version for the store unless the object's own is a number above the
// stored one, because the order of events counts. A made-up version is not a number, so it is never
// compared. The object keeps its own.
func (s *sink) advanceVersion(m *wire.Meta, held *store.Object) {
	had, number := held.ResourceVersionNumber()
	has, err := resourceversion.Parse(m.ResourceVersion)
	if err == nil && (!number || has > had) {
		return
	}
	s.syntheticVersions++
	m.ResourceVersion = strconv.AppendUint([]byte(syntheticVersion), s.syntheticVersions, 10)
}

// syntheticVersion is the prefix of made-up resourceVersions.
const syntheticVersion = "weir/"
