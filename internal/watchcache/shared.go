package watchcache

import (
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// sharedBytes bounds what a cache keeps of encoded events: what hundreds of updates make, because watchers that keep up take an event at
// the same time.
const sharedBytes = 2 << 20

// sharedOverhead is what an entry takes besides its bytes.
const sharedOverhead = 256

// sharedEvents are the newest events as their watchers get them, and the bytes of objects that several watchers look at. What is over
// the bound goes, the oldest first; who has it keeps it. The zero value is empty. Safe for concurrent use.
type sharedEvents struct {
	hits, misses atomic.Uint64

	mu      sync.Mutex
	entries map[sharedKey]*sharedEntry
	oldest  []sharedKey // in the order in which they were made
	bytes   int64
}

// sharedKey is one version of an object, as one form of watchers is told of it.
type sharedKey struct {
	object *store.Object
	event  wire.EventType // 0: the bytes of the object as they are stored
	rv     uint64         // of a deletion
	form   formKey
}

// sharedEntry is made by whoever asks first, while others wait.
type sharedEntry struct {
	once  sync.Once
	bytes []byte
	err   error
}

// get returns the bytes of k, which nobody may change. It calls encode if they are not there.
func (s *sharedEvents) get(k sharedKey, encode func() ([]byte, error)) ([]byte, error) {
	e, made := s.entry(k), false
	e.once.Do(func() {
		made = true
		e.bytes, e.err = encode()
	})
	if !made {
		s.hits.Add(1)
		return e.bytes, e.err
	}
	s.misses.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(len(e.bytes)) + sharedOverhead
	s.oldest = append(s.oldest, k)
	for s.bytes > sharedBytes {
		s.drop()
	}
	return e.bytes, e.err
}

func (s *sharedEvents) entry(k sharedKey) *sharedEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[k]
	if e == nil {
		if s.entries == nil {
			s.entries = map[sharedKey]*sharedEntry{}
		}
		e = &sharedEntry{}
		s.entries[k] = e
	}
	return e
}

func (s *sharedEvents) drop() {
	k := s.oldest[0]
	s.oldest[0] = sharedKey{}
	s.oldest = s.oldest[1:]
	s.bytes -= int64(len(s.entries[k].bytes)) + sharedOverhead
	delete(s.entries, k)
}

// clear forgets everything.
func (s *sharedEvents) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.oldest) > 0 {
		s.drop()
	}
	s.oldest = nil
}

func (s *sharedEvents) held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}
