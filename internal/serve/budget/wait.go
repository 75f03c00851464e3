package budget

import (
	"context"
	"slices"
)

// waiter is a waiting call of Wait. The lock of its Budget guards it.
type waiter struct {
	charge   *Charge
	n, spare int64
	granted  chan struct{} // closed when the bytes are charged
}

// Wait charges n bytes as soon as n+spare bytes fit. It leaves the spare bytes free for a later
// Grow. If they do not fit before ctx ends, Wait charges nothing and returns an *ExceededError. The
// caller must bound the number of waiting calls: when bytes are removed, the Budget checks each of
// them, the oldest first.
func (c *Charge) Wait(ctx context.Context, n, spare int64) error {
	b, w := c.budget, &waiter{charge: c, n: n, spare: spare}
	b.mu.Lock()
	if b.take(w) == nil {
		b.mu.Unlock()
		return nil
	}
	w.granted = make(chan struct{})
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return nil // granted meanwhile
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	err := b.take(w)
	if err != nil {
		b.levels[c.level].refused++
	}
	return err
}

// take charges w's bytes if they fit. The caller holds b.mu.
func (b *Budget) take(w *waiter) error {
	err := b.fits(w.charge.level, w.charge.share, w.n+w.spare)
	if err == nil {
		w.charge.add(w.n)
	}
	return err
}

// grant charges the bytes of all waiters whose bytes now fit. The caller has removed bytes and
// holds b.mu.
func (b *Budget) grant() {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if b.take(w) != nil {
			return false
		}
		close(w.granted)
		return true
	})
}
