package store

import (
	"context"
	"fmt"

	"github.com/weirproject/weir/internal/resourceversion"
)

// progress is the resourceVersion that a writer is current to.
type progress struct {
	text string
	rv   uint64
	ok   bool // text is an integer
	era  uint32
}

func progressOf(resourceVersion string) progress {
	rv, ok := resourceversion.ParseCanonical(resourceVersion)
	return progress{text: resourceVersion, rv: rv, ok: ok}
}

// announceLocked wakes whoever waits for progress. It is called with the lock held.
func (s *Store) announceLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait blocks until reached returns true, and then returns nil. It returns the cause of ctx when
// that ends, and ErrClosed when the store is closed. reached is called with the lock held.
func (s *Store) wait(ctx context.Context, reached func() bool) error {
	for {
		s.mu.Lock()
		if reached() {
			s.mu.Unlock()
			return nil
		}
		if s.closed.Load() {
			s.mu.Unlock()
			return ErrClosed
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
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
func (s *Store) WaitSynced(ctx context.Context) error { return s.wait(ctx, s.syncedLocked) }

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
// A writer is at no resourceVersion from when a writer has found that the server went back until it
// has ended a replace of what the server has since: those that it was at before name other states.
func (s *Store) WaitResourceVersion(ctx context.Context, rv string) error {
	if rv == "" {
		return nil
	}
	want, ok := resourceversion.ParseCanonical(rv)
	if !ok {
		return fmt.Errorf("resourceVersion %q: %w", rv, ErrInvalidResourceVersion)
	}
	return s.wait(ctx, func() bool {
		if want == 0 {
			return true
		}
		for w := range s.writers {
			if !w.progress.ok || w.progress.era != s.era || w.progress.rv < want {
				return false
			}
		}
		return len(s.writers) > 0
	})
}
