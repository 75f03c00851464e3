package clientgo

import (
	"bytes"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// finals are the states that objects were deleted in, as the DELETED events had them: OnDelete gets that, and the store keeps only what it
// held before. A handler that comes later than maxFinals deletions, or finalBytes of them, or finalIdle after the last one, gets what was
// held before. Safe for concurrent use.
type finalStates struct {
	mu     sync.Mutex
	states []finalState // a ring, of maxFinals once there are so many
	next   int          // the oldest
	bytes  int
	last   time.Time   // of put
	timer  *time.Timer // runs while there are states
	closed bool
}

const (
	maxFinalStates     = 256
	maxFinalStateBytes = 1 << 20
	finalStateIdle     = time.Minute
)

// final is the state of one object.
type finalState struct {
	key     string
	version uint64 // of the deletion
	raw     []byte
	value   any // where there are no bytes, or they were transformed
}

// putRaw keeps a state, unless its version is no number. It copies raw.
func (f *finalStates) putRaw(m *wire.Meta, raw []byte) {
	if len(raw) > 0 && len(raw) <= maxFinalStateBytes {
		f.put(m, finalState{raw: bytes.Clone(raw)})
	}
}

// putValue keeps a state that there are no bytes of.
func (f *finalStates) putValue(m *wire.Meta, value any) { f.put(m, finalState{value: value}) }

func (f *finalStates) put(m *wire.Meta, s finalState) {
	version, err := strconv.ParseUint(string(m.ResourceVersion), 10, 64)
	if err != nil {
		return
	}
	s.key, s.version = string(wire.AppendKey(nil, m)), version
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if f.last = time.Now(); f.timer == nil {
		f.timer = time.AfterFunc(finalStateIdle, f.expire)
	}
	if len(f.states) < maxFinalStates {
		f.states = append(f.states, s)
	} else {
		f.bytes -= len(f.states[f.next].raw)
		f.states[f.next] = s
		f.next = (f.next + 1) % maxFinalStates
	}
	f.bytes += len(s.raw)
	for at := f.next; f.bytes > maxFinalStateBytes; at = (at + 1) % len(f.states) {
		f.bytes -= len(f.states[at].raw)
		f.states[at] = finalState{}
	}
}

// get finds the state of an object by the version of its deletion.
func (f *finalStates) get(key string, version uint64) (finalState, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.states {
		if s := &f.states[i]; s.version == version && s.key == key {
			return *s, true
		}
	}
	return finalState{}, false
}

// sweep lets go of everything when nothing has been deleted for long, and comes again while something has.
func (f *finalStates) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rest := finalStateIdle - time.Since(f.last); rest > 0 && !f.closed {
		f.timer.Reset(rest)
		return
	}
	f.states, f.next, f.bytes, f.timer = nil, 0, 0, nil
}

// close lets go of everything, for good.
func (f *finalStates) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.states = nil
}

// decode makes a value of the state, for the caller alone where it has bytes.
func (s *finalState) decode(c *codec, private bool) (any, error) {
	if s.raw != nil {
		return c.decode(s.raw)
	}
	if object, ok := s.value.(runtime.Object); ok && private {
		return object.DeepCopyObject(), nil
	}
	return s.value, nil
}

// lookLast is look for the last version of an object that is gone.
func (r *reader) lastValue(o *store.Object) (any, error) {
	if r.updates == nil {
		return r.valueOnce(o)
	}
	held, ok := r.updates.get(o)
	r.updates.remove(o.Key())
	if ok {
		return held.value, nil
	}
	return r.valueOnce(o)
}

// lookDeleted gives an object that is gone in the state that it was deleted in, or, where that is not kept any more, its last version
// with the resourceVersion of its deletion.
func (r *reader) deletedValue(o *store.Object, number uint64) (any, error) {
	if number == 0 {
		return r.lastValue(o) // it is not known
	}
	if value, ok := r.finalValue(o.Key(), number); ok {
		return value, nil
	}
	resourceVersion := strconv.FormatUint(number, 10)
	if r.delta != nil {
		value, err := r.lastValue(o)
		if err != nil {
			return nil, err
		}
		return withResourceVersion(value, resourceVersion), nil
	}
	value, err := r.freshValue(o)
	if err != nil {
		return nil, err
	}
	if r.updates != nil {
		r.updates.remove(o.Key())
	}
	if m, err := meta.Accessor(value); err == nil {
		m.SetResourceVersion(resourceVersion)
	}
	if r.mutationDetector != nil {
		r.mutationDetector.Add(o.Key(), value)
	}
	return value, nil
}

// lookFinal gives the state that an object was deleted in.
func (r *reader) finalValue(key string, number uint64) (any, bool) {
	state, ok := r.finalStates.get(key, number)
	if !ok {
		return nil, false
	}
	value, err := state.decode(r.codec, r.private)
	if err != nil {
		return nil, false // the version before can be decoded, perhaps
	}
	if r.updates != nil {
		r.updates.remove(key)
	}
	if r.mutationDetector != nil {
		r.mutationDetector.Add(key, value)
	}
	return value, true
}

// tombstone is what OnDelete gets where the final state is not known.
func (r *reader) tombstone(key string, last *store.Object) cache.DeletedFinalStateUnknown {
	value, err := r.lastValue(last)
	if err != nil {
		value = r.placeholder(last)
	}
	return cache.DeletedFinalStateUnknown{Key: key, Obj: value}
}

// versionOf is an object's own resourceVersion, "" if it has none.
func resourceVersionOf(value any) string {
	m, err := meta.Accessor(value)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}

// withVersion is a copy of an object, as shallow as can be, with another resourceVersion.
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
	m, ok := c.Interface().(metav1.ObjectMetaAccessor)
	if !ok {
		return value
	}
	m.GetObjectMeta().SetResourceVersion(version)
	return c.Interface()
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
