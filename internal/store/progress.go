package store

import (
	"container/heap"
	"context"
	"fmt"
	"math"

	"github.com/weirproject/weir/internal/resourceversion"
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

// announceLocked wakes those who wait for what has come about, and nobody else: thousands may wait
// for a resourceVersion that is far away. The caller holds the lock.
func (s *Store) announceLocked() {
	closed := s.closed.Load()
	if s.becameSynced != nil && (closed || s.syncedLocked()) {
		close(s.becameSynced)
		s.becameSynced = nil
	}
	if len(s.waiting) == 0 {
		return
	}
	reached := s.reachedLocked()
	for len(s.waiting) > 0 && (closed || s.waiting[0].want <= reached) {
		w := heap.Pop(&s.waiting).(*waiter)
		if w.want > reached {
			w.err = ErrClosed
		}
		close(w.done)
	}
}

// waiter is a caller of WaitResourceVersion who waits. The store's lock guards its place.
type waiter struct {
	want  uint64
	place int           // in the heap; -1: it is woken
	done  chan struct{} // closed when the store has reached want, or is closed
	err   error         // ErrClosed or nil, set before done is closed
}

// waiters is a heap of those who wait, the lowest resourceVersion first.
type waiters []*waiter

func (ws waiters) Len() int           { return len(ws) }
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

// Synced reports whether there is a writer and every writer has ended its first
// replace.
func (s *Store) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.syncedLocked()
}

func (s *Store) syncedLocked() bool {
	for w := range s.writers {
		if !w.synced {
			return false
		}
	}
	return len(s.writers) > 0
}

// WaitSynced blocks until Synced, and then returns nil. The error is the cause of ctx, or
// ErrClosed.
func (s *Store) WaitSynced(ctx context.Context) error {
	for {
		s.mu.Lock()
		if s.syncedLocked() {
			s.mu.Unlock()
			return nil
		}
		if s.closed.Load() {
			s.mu.Unlock()
			return ErrClosed
		}
		if s.becameSynced == nil {
			s.becameSynced = make(chan struct{})
		}
		synced := s.becameSynced
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-synced: // it may not be any more, with another writer
		}
	}
}

// ResourceVersion returns the lowest progress of all writers. The store holds the state of this
// resourceVersion or a later one. The versions are compared as integers; if one is not an integer,
// they must all be equal. ResourceVersion returns "" if there is no such version, for example
// because a writer has made no progress yet.
func (s *Store) ResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.resourceVersionLocked()
}

func (s *Store) resourceVersionLocked() string {
	var lowest *progress
	for w := range s.writers {
		p := &w.progress
		switch {
		case p.text == "":
			return ""
		case lowest == nil:
			lowest = p
		case p.ok && lowest.ok:
			if p.rv < lowest.rv {
				lowest = p
			}
		case p.text != lowest.text:
			return ""
		}
	}
	if lowest == nil {
		return ""
	}
	return lowest.text
}

// WaitResourceVersion blocks until all writers have progressed to rv or beyond, compared as
// integers, and then returns nil. After that, what was written at rv can be read here. "" and "0"
// are always reached.
//
// A writer progresses with what its own source tells. Nobody can know which of several sources has
// what was written at rv, so the wait is for the slowest of them. Where nothing changes in a
// source, that is its next bookmark, which takes kube-apiserver a minute. The error is the cause of
// ctx, ErrClosed, or ErrInvalidResourceVersion.
//
// While a restore is known and a writer has not ended a replace since, the writer is at no
// resourceVersion: earlier ones name other states.
func (s *Store) WaitResourceVersion(ctx context.Context, rv string) error {
	if rv == "" {
		return nil
	}
	want, ok := resourceversion.ParseCanonical(rv)
	if !ok {
		return fmt.Errorf("resourceVersion %q: %w", rv, ErrInvalidResourceVersion)
	}
	if want == 0 {
		return nil
	}
	w := &waiter{want: want, done: make(chan struct{})}
	s.mu.Lock()
	switch {
	case s.reachedLocked() >= want:
		s.mu.Unlock()
		return nil
	case s.closed.Load():
		s.mu.Unlock()
		return ErrClosed
	}
	heap.Push(&s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.place >= 0 {
		heap.Remove(&s.waiting, w.place)
	}
	return context.Cause(ctx)
}

// reachedLocked returns the resourceVersion to which all writers have progressed. 0: there is none.
func (s *Store) reachedLocked() uint64 {
	if len(s.writers) == 0 {
		return 0
	}
	reached := uint64(math.MaxUint64)
	for w := range s.writers {
		if !w.progress.ok || w.progress.serverGen != s.serverGen {
			return 0
		}
		reached = min(reached, w.progress.rv)
	}
	return reached
}
