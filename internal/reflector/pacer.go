package reflector

import (
	"context"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// pacer leaves CPU to a handler that is at work and has fallen behind: what is taken in faster than it can follow waits or is
// coalesced, so that taking it in so soon was for nothing, and at the handler's expense. So events are taken in a little slower than the
// handler takes them, until it has caught up. For a handler that does not go on nothing waits.
type pacer struct {
	ready  time.Time // since when nothing waits
	behind bool      // whether a handler was behind then
	// When the handler was last seen to go on, how many changes it had read, and what it took for one, in the mean.
	went time.Time
	read uint64
	per  time.Duration
}

const (
	// paceMost is the longest time that an event takes: a handler that takes longer has the CPU for the most part anyhow. No
	// kube-apiserver sends one watch so much, for long, that it would have to wait.
	paceMost = 150 * time.Microsecond
	// A handler that has read nothing for stuckFor is waiting for something else than CPU.
	stuckFor = 50 * time.Millisecond
)

// wait waits until it is time for more, after so many events; no longer than ctx.
func (p *pacer) wait(ctx context.Context, w *store.Writer, events int) {
	now := time.Now()
	took := now.Sub(p.ready)
	if took >= time.Duration(events)*paceMost { // which is nearly always: then nobody need be asked
		p.ready, p.behind = now, false
		return
	}
	behind, read := w.Behind()
	switch {
	case !behind:
		p.per = 0
	case !p.behind:
		p.went, p.read = now, read
	case read > p.read:
		per := min(now.Sub(p.went)/time.Duration(read-p.read), paceMost)
		if p.per == 0 {
			p.per = per
		}
		p.per = (3*p.per + per) / 4
		p.went, p.read = now, read
	case now.Sub(p.went) > stuckFor || read < p.read: // or another handler is the one behind
		p.per, p.went, p.read = 0, now, read
	}
	p.behind = behind
	if left := time.Duration(events)*p.per*9/8 - took; p.per > 0 && left > 0 {
		sleep(ctx, left)
	}
	p.ready = time.Now()
}

// sleep waits, no longer than ctx.
func sleep(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
