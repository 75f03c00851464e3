package watchcache

import (
	"sync"

	"github.com/weirproject/weir/internal/store"
)

// batch is how many changes a watcher takes from the log at once.
const batch = 64

// scratch is the memory that sending needs. A watcher has it only while it sends: most wait most of the time.
type scratch struct {
	raw, stamped, object, event []byte
	changes                     [batch]store.Change
}

// maxScratch bounds what each buffer of a scratch may keep from one watcher to the next, in bytes.
const maxScratch = 64 << 10

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// lend lends a matcher and a form their buffers.
func (s *scratch) lend(m *matcher, f *form) { m.own, f.scratch = s.raw, s.object }

// release takes the buffers back, and gives up the scratch. The changes must have been cleared.
func (s *scratch) release(m *matcher, f *form) {
	s.raw, s.object = m.own, f.scratch
	m.own, f.scratch = nil, nil
	for _, b := range []*[]byte{&s.raw, &s.stamped, &s.object, &s.event} {
		if cap(*b) > maxScratch {
			*b = nil
		}
	}
	scratches.Put(s)
}
