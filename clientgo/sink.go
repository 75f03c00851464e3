package clientgo

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/codec"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// sink is the reflector's Sink. It writes what an informer's reflector receives into the store.
// Captured bytes are stored as they came. Returned objects are encoded if the encoding loses
// nothing, and stored as values otherwise. Only the reflector's goroutine uses it.
type sink struct {
	*store.Writer
	name      string // of the informer, for errors
	store     *store.Store
	codec     *codec.Codec
	finals    finalStates
	transform cache.TransformFunc // nil for none; set before the start
	pin       bool                // store every object as a value
	// syntheticVersions counts the versions made up for objects whose own do not increase.
	syntheticVersions uint64
	renames           renames // what the transform has given another name or namespace
	meta              wire.Meta
	// onTransformed gets each version that was stored encoded, and the value that a transform
	// returned for it. It may be nil.
	onTransformed func(o *store.Object, value any)
	// published is an empty store of client-go's, which publishes the resourceVersion that it is told.
	// It may be nil.
	published cache.Store
	failures  transformLog
}

// Take implements reflector.Sink. An object that cannot be taken is left out and reported, because
// no other log may say why it is missing. The version before stays, in a relist too. That is so
// for a version that the transform excludes, which is not reported.
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
			return err // the version is held, and was transformed before
		}
	}
	value, err := s.codec.Decode(raw)
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return s.transformAndPut(m, raw, func() (any, error) { return s.transformed(value) })
}

// takeDeleted takes a DELETED event. A transform may have given the object another key.
func (s *sink) takeDeleted(m *wire.Meta, raw []byte) error {
	if s.transform == nil {
		s.finals.putRaw(m, s.endedBy(m), bytes.Clone(raw))
		return s.Delete(m, raw)
	}
	value, err := s.codec.Decode(raw)
	if err == nil {
		value, err = s.transformed(value)
	}
	if err == nil && s.rename(m, value) {
		s.keepFinalValue(m, s.endedBy(m), value)
	} else { // the object goes all the same, and OnDelete gets the version before
		s.renames.apply(m)
	}
	return s.Delete(m, raw)
}

// endedBy returns the version that a DELETED event ends, so that its final state is found, if the
// event has no resourceVersion that is a number. It returns nil otherwise.
func (s *sink) endedBy(m *wire.Meta) *store.Object {
	if deletionVersion(m) != 0 {
		return nil
	}
	s.Flush() // the store must hold what came before this event
	held, ok := s.store.Get(string(wire.AppendKey(nil, m)))
	if !ok || len(m.UID) > 0 && string(m.UID) != held.UID() {
		return nil
	}
	return held
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

// publish publishes how current the store is.
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

// keepFinalValue keeps the final state of an object, transformed, and encoded if possible. ended is
// the version that it has ended, if that is known.
func (s *sink) keepFinalValue(m *wire.Meta, ended *store.Object, value any) {
	if raw := s.encoded(value); raw != nil {
		s.finals.putRaw(m, ended, raw)
	} else {
		s.finals.putValue(m, ended, value)
	}
}

// takeObject takes an object that the ListerWatcher returned.
func (s *sink) takeObject(t wire.EventType, m *wire.Meta, object any) error {
	if t != 0 {
		s.Flush() // the store must hold what came before this event
	}
	transformed := func() (any, error) { return s.transformed(object) }
	if s.renames != nil { // what is held under which key only the transform can say
		changed, err := s.transformed(copied(object))
		switch {
		case err == nil && s.rename(m, changed):
		case t == wire.Deleted: // the object goes all the same
			s.renames.apply(m)
		case err != nil:
			return transformError{err}
		}
		transformed = func() (any, error) { return changed, err }
	}
	held, ok := s.store.Get(string(wire.AppendKey(nil, m)))
	switch {
	case t == wire.Deleted:
		if ok && isEarlierObject(object, held) {
			return nil // a repeated deletion of an earlier object of this name
		}
		return s.deleteObject(m, object, held, transformed)
	case ok && t != 0 && !s.Replacing() && isEarlierVersion(object, held):
		return nil // a repeated event; a watch that breaks off here is not resumed before it
	case ok && s.repeats(t, object, held):
		m.UID, m.ResourceVersion = []byte(held.UID()), []byte(held.ResourceVersion())
		// The version is held, and was transformed before. The content may differ all the same.
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

// repeats reports whether an object that was told of is in the version that is held. A change that
// cannot be compared is news, as with client-go.
func (s *sink) repeats(t wire.EventType, object any, held *store.Object) bool {
	if t == 0 || t == wire.Added { // a list or initial events may repeat what is held
		return sameVersion(object, held) || s.unchanged(object, held)
	}
	// So may the changes that come after a list which broke off. Fake clientsets, which set no uid,
	// change objects without giving them new versions.
	if held.UID() == "" || !sameVersion(object, held) {
		return false
	}
	if s.encoded(object) != nil {
		return true // the contents are compared by their bytes
	}
	value, err := held.Decoded()
	return s.transform == nil && err == nil && codec.Equal(object, value)
}

// deleteObject takes the returned object of a DELETED event. held is the version held under its
// key, or nil. OnDelete gets the returned object, unless the object cannot be transformed or is
// older than held, as in an event that comes again.
func (s *sink) deleteObject(m *wire.Meta, object any, held *store.Object, transformed func() (any, error)) error {
	final := held != nil && isFinal(object, held)
	if held != nil {
		m.UID = []byte(held.UID())
	}
	if value, err := transformed(); err == nil && s.rename(m, value) && final {
		s.keepFinalValue(m, held, value)
	}
	if held != nil {
		s.advanceVersion(m, held)
	}
	return s.Delete(m, nil)
}

// isFinal reports whether a deleted object is the one that is held, and no lower number says that
// it is older.
func isFinal(object any, held *store.Object) bool {
	is, err := wire.IdentityOf(object)
	return err == nil && (is.UID == "" || is.UID == held.UID()) && !isBefore(is, held)
}

// copied returns a copy of a returned object, which a transform may change. It returns an object
// that cannot be copied itself.
func copied(object any) any {
	if duplicate, ok := codec.Copy(object); ok {
		return duplicate
	}
	return object
}

// encoded returns the bytes that stand for a returned object, or nil if it cannot be encoded.
func (s *sink) encoded(object any) []byte {
	raw, _ := s.codec.Encode(object)
	return raw
}

// isEarlierObject reports whether a deleted object had the name before the one that is held.
func isEarlierObject(object any, held *store.Object) bool {
	is, err := wire.IdentityOf(object)
	return err == nil && is.UID != "" && is.UID != held.UID() && isBefore(is, held)
}

// isEarlierVersion reports whether an object is an earlier version than the one that is held, of
// the same object or of one that had the name before. It is false without a uid, which fake
// clientsets do not set.
func isEarlierVersion(object any, held *store.Object) bool {
	is, err := wire.IdentityOf(object)
	return err == nil && is.UID != "" && held.UID() != "" && isBefore(is, held)
}

// isBefore reports whether an object's resourceVersion and that of the held one are numbers, and
// the object's is the lower.
func isBefore(object wire.Identity, held *store.Object) bool {
	has, err := resourceversion.Parse(object.ResourceVersion)
	had, number := ownVersion(held)
	return err == nil && number && has < had
}

// ownVersion returns the number of a held object's own resourceVersion, and false if it is no
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

// sameVersion reports whether an object has the uid and resourceVersion of the held one.
func sameVersion(object any, held *store.Object) bool {
	is, err := wire.IdentityOf(object)
	return err == nil && is.ResourceVersion != "" && is.ResourceVersion == held.ResourceVersion() && is.UID == held.UID()
}

// unchanged reports whether a listed object is the held one, if the held resourceVersion was made
// up or is missing: fake clientsets set none. It compares the objects, unless the held one is the
// result of a transform. An object that codec.Equal cannot compare counts as changed.
func (s *sink) unchanged(object any, held *store.Object) bool {
	value, err := held.Decoded()
	if err != nil {
		return false
	}
	was, err := wire.IdentityOf(value)
	if err != nil {
		return false
	}
	is, err := wire.IdentityOf(object)
	if err != nil || is.UID != held.UID() || is.ResourceVersion != was.ResourceVersion {
		return false
	}
	if s.transform != nil {
		return is.ResourceVersion != ""
	}
	return codec.Equal(object, value)
}

// advanceVersion makes up a version for the store unless the object's own is a number above the
// held one: the order of events is what counts. A version that is made up is not a number, so it is
// never compared. The object keeps its own.
func (s *sink) advanceVersion(m *wire.Meta, held *store.Object) {
	had, number := held.ResourceVersionNumber()
	has, err := resourceversion.Parse(m.ResourceVersion)
	if err == nil && (!number || has > had) {
		return
	}
	s.syntheticVersions++
	m.ResourceVersion = strconv.AppendUint([]byte(syntheticVersion), s.syntheticVersions, 10)
}

// syntheticVersion begins resourceVersions that are made up.
const syntheticVersion = "weir/"
