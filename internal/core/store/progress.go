package store

import (
	"github.com/weirproject/weir/internal/core/resourceversion"
)

// progress is the resourceVersion that a writer is current to.
type progress struct {
	text      string
	rv        uint64
	ok        bool // text is an integer
	serverGen uint32
}

func progressOf(resourceVersion string) progress {
	rv, ok := resourceversion.ParseCanonical(resourceVersion)
	return progress{text: resourceVersion, rv: rv, ok: ok}
}

// waiter is a waiting call of WaitResourceVersion. The store's lock guards place.
type waiter struct {
	want  uint64
	place int           // in the heap; -1: not in the heap any more
	done  chan struct{} // closed when the store has reached want, or is closed
	err   error         // ErrClosed or nil, set before done is closed
}

// waiters is a heap of waiting calls, the lowest resourceVersion first.
type waiters []*waiter

func (ws waiters) Len() int { return len(ws) }

func (ws waiters) Less(i, j int) bool { return ws[i].want < ws[j].want }

func (ws waiters) Swap(i, j int) {
	ws[i], ws[j] = ws[j], ws[i]
	ws[i].place, ws[j].place = i, j
}

// Push implements heap.Interface.
func (ws *waiters) Push(x any) {
	w := x.(*waiter)
	w.place = len(*ws)
	*ws = append(*ws, w)
}

// Pop implements heap.Interface.
func (ws *waiters) Pop() any {
	last := len(*ws) - 1
	w := (*ws)[last]
	(*ws)[last] = nil
	*ws = (*ws)[:last]
	w.place = -1
	return w
}
