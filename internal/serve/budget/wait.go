package budget

import (
	"context"
	"slices"
)

// waiter is a Wait for bytes. The lock of its Budget guards it.
type waiter struct {
	charge   *Charge
	n, spare int64
	granted  chan struct{} // closed when the bytes are charged
}

// Wait adds n bytes as soon as they fit with spare more, which it leaves to Grow. It returns an
// *ExceededError, and adds nothing, if they do not before ctx ends. The caller bounds how many
// wait: each is looked at when bytes are removed, those that came first before others.
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

// take charges what is waited for if it fits. The caller holds the lock.
func (b *Budget) take(w *waiter) error {
	err := b.fits(w.charge.level, w.charge.share, w.n+w.spare)
	if err == nil {
		w.charge.add(w.n)
	}
	return err
}

// grant charges what is waited for and fits after bytes were removed. The caller holds the lock.
func (b *Budget) grant() {
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if b.take(w) != nil {
			return false
		}
		close(w.granted)
		return true
	})
}
