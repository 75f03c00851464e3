package store

import (
	"context"
	"fmt"
)

// progress is how far a writer has come.
type progress struct {
	text string
	rv   uint64
	ok   bool // text is an integer
	era  uint32
}

func progressOf(resourceVersion string) progress {
	rv, ok := parseVersion(resourceVersion)
	return progress{text: resourceVersion, rv: rv, ok: ok}
}

// announceLocked wakes whoever waits for progress.
func (s *Store) announceLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait waits until reached, which is called with the lock held.
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

// WaitSynced waits until Synced. The error is the context's cause, or ErrClosed.
func (s *Store) WaitSynced(ctx context.Context) error { return s.wait(ctx, s.syncedLocked) }

// ResourceVersion is the lowest progress of all writers: the store holds the
// state of this resourceVersion or a later one. Writers' resourceVersions are
// compared as integers; if one is not, they must all be equal. "" if there is
// no such version, for example because a writer has made no progress yet.
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

// WaitResourceVersion waits until all writers have progressed to rv or beyond,
// compared as integers: after that, what was written at rv can be read here. ""
// and "0" are always reached. A writer progresses with what its own source
// tells. Nobody can know which of several sources has what was written at rv, so
// the wait is for the slowest of them: where nothing changes in one, for its next
// bookmark, which takes kube-apiserver a minute. The error is the context's
// cause, ErrClosed, or ErrNotInteger.
func (s *Store) WaitResourceVersion(ctx context.Context, rv string) error {
	if rv == "" {
		return nil
	}
	want, ok := parseVersion(rv)
	if !ok {
		return fmt.Errorf("resourceVersion %q: %w", rv, ErrNotInteger)
	}
	return s.wait(ctx, func() bool {
		if want == 0 {
			return true
		}
		for w := range s.writers {
			if !w.progress.ok || w.progress.rv < want {
				return false
			}
		}
		return len(s.writers) > 0
	})
}
