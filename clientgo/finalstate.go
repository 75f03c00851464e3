package clientgo

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// finalStates keeps the states from DELETED events for OnDelete; the store has only the previous
// version. It keeps at most maxFinalStates states and maxFinalStateBytes bytes, which are estimated
// for values, and drops the oldest first. It drops all of them finalStateIdle after the last
// deletion. A handler that lags longer receives the version before the deletion. Safe for
// concurrent use.
type finalStates struct {
	mu     sync.Mutex
	states []finalState // a ring when it has maxFinalStates
	next   int          // index of the oldest
	bytes  int
	last   time.Time   // time of the last put
	timer  *time.Timer // runs while there are states; close stops it
	closed bool
}

const (
	maxFinalStates     = 256
	maxFinalStateBytes = 1 << 20
	finalStateIdle     = time.Minute
)

// finalState is the state in which one object was deleted. It is found by the version that it ended
// or, if that is unknown, by the deletion's own version if that is a number, which is cheaper to
// determine.
type finalState struct {
	key     string
	version uint64 // of the deletion; 0: not a number
	ended   uint64 // revision of the version that it ended; 0: unknown
	event   string // uid and resourceVersion of the deletion if the version is not a number
	raw     []byte
	value   any // set if it cannot be encoded
	bytes   int
}

// putRaw keeps the bytes of a state that ended a version, which may be nil. It does not keep a
// state that is larger than maxFinalStateBytes, or that has neither a version nor a number to find
// it by. It does not keep a state again: if the event is repeated, later states have been received
// since.
func (f *finalStates) putRaw(m *wire.Meta, ended *store.Object, raw []byte) {
	if len(raw) > 0 {
		f.put(m, ended, finalState{raw: raw, bytes: len(raw)})
	}
}

// putValue keeps a state as a value, under the same conditions.
func (f *finalStates) putValue(m *wire.Meta, ended *store.Object, value any) {
	f.put(m, ended, finalState{value: value, bytes: valueSize(value, maxFinalStateBytes)})
}

func (f *finalStates) put(m *wire.Meta, ended *store.Object, s finalState) {
	s.version = deletionVersion(m)
	if ended != nil {
		s.ended = ended.Revision()
	}
	if s.bytes > maxFinalStateBytes || s.version == 0 && s.ended == 0 {
		return
	}
	s.key = string(wire.AppendKey(nil, m))
	if s.version == 0 && len(m.UID) > 0 && len(m.ResourceVersion) > 0 {
		s.event = string(m.UID) + " " + string(m.ResourceVersion)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || s.event != "" && slices.ContainsFunc(f.states, func(was finalState) bool { return was.key == s.key && was.event == s.event }) {
		return
	}
	if f.last = time.Now(); f.timer == nil {
		f.timer = time.AfterFunc(finalStateIdle, f.expire)
	}
	if len(f.states) < maxFinalStates {
		f.states = append(f.states, s)
	} else {
		f.bytes -= f.states[f.next].bytes
		f.states[f.next] = s
		f.next = (f.next + 1) % maxFinalStates
	}
	f.bytes += s.bytes
	for at := f.next; f.bytes > maxFinalStateBytes; at = (at + 1) % len(f.states) {
		f.bytes -= f.states[at].bytes
		f.states[at] = finalState{}
	}
}

// deletionVersion returns the resourceVersion of a deletion, or 0 if the store cannot use it as a
// number.
func deletionVersion(m *wire.Meta) uint64 {
	version, _ := resourceversion.ParseCanonical(m.ResourceVersion)
	return version
}

// get returns the state that ended the version with a revision. If a state does not know that, get
// compares the version of the deletion.
func (f *finalStates) get(key string, version, ended uint64) (finalState, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := len(f.states) - 1; n >= 0; n-- {
		s := &f.states[(f.next+n)%len(f.states)]
		matches := s.ended == ended
		if s.ended == 0 {
			matches = s.version == version
		}
		if matches && s.key == key {
			return *s, true
		}
	}
	return finalState{}, false
}

// expire drops all states if nothing was deleted for finalStateIdle, and restarts the timer
// otherwise.
func (f *finalStates) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rest := finalStateIdle - time.Since(f.last); rest > 0 && !f.closed {
		f.timer.Reset(rest)
		return
	}
	f.states, f.next, f.bytes, f.timer = nil, 0, 0, nil
}

// close drops all states permanently.
func (f *finalStates) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.states, f.bytes = nil, 0
}

// footprint returns the estimated bytes of the states.
func (f *finalStates) footprint() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(f.bytes) + int64(cap(f.states))*int64(reflect.TypeFor[finalState]().Size())
}

// decode returns the value of the state. The caller owns it if the state has bytes or PrivateCopies
// is set.
func (s *finalState) decode(c *codec.Codec, private bool) (any, error) {
	if s.raw != nil {
		return c.Decode(s.raw)
	}
	if private {
		if own, ok := codec.Copy(s.value); ok {
			return own, nil
		}
	}
	return s.value, nil
}

// lastValue returns the last version of a deleted object.
func (r *reader) lastValue(ch *store.Change) (any, error) {
	value, _, err := r.values(&store.Change{Revision: ch.Revision, Old: ch.Old})
	return value, err
}

// deletedValue returns the final state of a deleted object. If that is not kept, it returns the
// last version with the deletion's resourceVersion, if that is a number; a value whose metadata
// cannot be copied is returned unchanged.
func (r *reader) deletedValue(ch *store.Change) (any, error) {
	o, number := ch.Old, ch.ResourceVersion
	value, ok := r.finalValue(o, number)
	if !ok && number == 0 {
		return r.lastValue(ch)
	}
	if !ok && r.shares {
		last, err := r.lastValue(ch)
		if err != nil {
			return nil, err
		}
		return withResourceVersion(last, resourceversion.Format(number)), nil
	}
	if !ok {
		last, own, err := r.freshValue(o)
		if err != nil {
			return nil, err
		}
		if value = last; !own {
			value = withResourceVersion(last, resourceversion.Format(number))
		} else {
			codec.SetResourceVersion(last, resourceversion.Format(number))
		}
	}
	if r.mutationDetector != nil && !r.private {
		r.mutationDetector.Add(o.Key(), value)
	}
	return value, nil
}

// finalValue returns the final state of an object if it is kept and can be decoded.
func (r *reader) finalValue(o *store.Object, number uint64) (any, bool) {
	state, ok := r.finalStates.get(o.Key(), number, o.Revision())
	if !ok {
		return nil, false
	}
	value, err := state.decode(r.codec, r.private)
	return value, err == nil // otherwise the previous version may be decodable
}

// tombstone returns the argument of OnDelete if the final state is unknown.
func (r *reader) tombstone(ch *store.Change) cache.DeletedFinalStateUnknown {
	value, err := r.lastValue(ch)
	if err != nil {
		value = r.placeholder(ch.Old)
	}
	return cache.DeletedFinalStateUnknown{Key: ch.Key(), Obj: value}
}

// resourceVersionOf returns an object's own resourceVersion, or "" if it has none.
func resourceVersionOf(value any) string {
	id, err := wire.IdentityOf(value)
	if err != nil {
		return ""
	}
	return id.ResourceVersion
}

// withResourceVersion returns a copy of an object, as shallow as possible, with another
// resourceVersion. It returns the object itself if a shallow copy would share its metadata, or if
// the resourceVersion cannot be set.
func withResourceVersion(value any, version string) any {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.IsNil() || resourceVersionOf(value) == version {
		return value
	}
	if u, ok := value.(*unstructured.Unstructured); ok {
		return unstructuredWithResourceVersion(u, version)
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	if !ownsMetadata(c.Interface(), value) || !codec.SetResourceVersion(c.Interface(), version) {
		return value
	}
	return c.Interface()
}

// ownsMetadata reports whether a copy of a value certainly has its own metadata.
func ownsMetadata(duplicate, value any) (owns bool) {
	defer func() {
		if recover() != nil { // the type does not implement GetObjectMeta
			owns = false
		}
	}()
	of, ok := value.(metav1.ObjectMetaAccessor)
	if !ok {
		return false
	}
	was, is := reflect.ValueOf(of.GetObjectMeta()), reflect.ValueOf(duplicate.(metav1.ObjectMetaAccessor).GetObjectMeta())
	return was.Kind() == reflect.Pointer && is.Kind() == reflect.Pointer && was.Pointer() != is.Pointer()
}

func unstructuredWithResourceVersion(u *unstructured.Unstructured, version string) any {
	content := maps.Clone(u.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		metadata["resourceVersion"] = version
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}
