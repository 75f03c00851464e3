package clientgo

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/wire"
)

// finals are the states that objects were deleted in, as the DELETED events had them: OnDelete gets that, and the store keeps only what it
// held before. A handler that comes later than maxFinals deletions, or finalBytes of them, or finalIdle after the last one, gets what was
// held before. Safe for concurrent use.
type finals struct {
	mu      sync.Mutex
	states  []final // a ring, of maxFinals once there are so many
	next    int     // the oldest
	bytes   int
	last    time.Time   // of put
	sweeper *time.Timer // runs while there are states
	closed  bool
}

const (
	maxFinals  = 256
	finalBytes = 1 << 20
	finalIdle  = time.Minute
)

// final is the state of one object.
type final struct {
	key     string
	version uint64 // of the deletion
	raw     []byte
	value   any // where there are no bytes, or they were transformed
}

// putRaw keeps a state, unless its version is no number. It copies raw.
func (f *finals) putRaw(m *wire.Meta, raw []byte) {
	if len(raw) > 0 && len(raw) <= finalBytes {
		f.put(m, final{raw: bytes.Clone(raw)})
	}
}

// putValue keeps a state that there are no bytes of.
func (f *finals) putValue(m *wire.Meta, value any) { f.put(m, final{value: value}) }

func (f *finals) put(m *wire.Meta, s final) {
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
	if f.last = time.Now(); f.sweeper == nil {
		f.sweeper = time.AfterFunc(finalIdle, f.sweep)
	}
	if len(f.states) < maxFinals {
		f.states = append(f.states, s)
	} else {
		f.bytes -= len(f.states[f.next].raw)
		f.states[f.next] = s
		f.next = (f.next + 1) % maxFinals
	}
	f.bytes += len(s.raw)
	for at := f.next; f.bytes > finalBytes; at = (at + 1) % len(f.states) {
		f.bytes -= len(f.states[at].raw)
		f.states[at] = final{}
	}
}

// get finds the state of an object by the version of its deletion.
func (f *finals) get(key string, version uint64) (final, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.states {
		if s := &f.states[i]; s.version == version && s.key == key {
			return *s, true
		}
	}
	return final{}, false
}

// sweep lets go of everything when nothing has been deleted for long, and comes again while something has.
func (f *finals) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if rest := finalIdle - time.Since(f.last); rest > 0 && !f.closed {
		f.sweeper.Reset(rest)
		return
	}
	f.states, f.next, f.bytes, f.sweeper = nil, 0, 0, nil
}

// close lets go of everything, for good.
func (f *finals) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.sweeper != nil {
		f.sweeper.Stop()
	}
	f.states = nil
}

// decode makes a value of the state, for the caller alone where it has bytes.
func (s *final) decode(c *codec, private bool) (any, error) {
	if s.raw != nil {
		return c.decode(s.raw)
	}
	if object, ok := s.value.(runtime.Object); ok && private {
		return object.DeepCopyObject(), nil
	}
	return s.value, nil
}
