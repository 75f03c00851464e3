package reflector

import (
	"context"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// throttle leaves CPU to a handler that is at work and has fallen behind. If events come in faster
// than the handler can follow, they wait or are coalesced: to take them in so soon gained nothing,
// and cost the handler CPU. So they are taken in a little slower than the handler takes them, until
// it has caught up. A blocked handler never slows the reflector.
type throttle struct {
	ready  time.Time // since when nothing waits
	behind bool      // whether a handler was behind then
	// When the handler was last seen to go on, how many changes it had read, and what it took for
	// one, in the mean.
	went time.Time
	read uint64
	per  time.Duration
}

const (
	// maxThrottle bounds the wait for one event. A handler that takes longer has most of the CPU
	// anyhow. At 150 µs a reflector still takes 5,900 events a second, more than a kube-apiserver
	// sends one watch for long. JSON takes about four times as long to take in and to decode.
	maxThrottle     = 150 * time.Microsecond
	maxThrottleJSON = 4 * maxThrottle
	// stuckFor is after how long without a read a handler counts as waiting for something other
	// than CPU.
	stuckFor = 50 * time.Millisecond
)

// longestWait returns how long an event of an encoding waits at most.
func longestWait(encoding wire.Encoding) time.Duration {
	if encoding == wire.JSON {
		return maxThrottleJSON
	}
	return maxThrottle
}

// wait blocks after a number of events, of which each waits for longest at most, until it is time
// for more or ctx ends.
func (t *throttle) wait(ctx context.Context, sink Sink, events int, longest time.Duration) {
	now := time.Now()
	took := now.Sub(t.ready)
	if took >= time.Duration(events)*longest { // nearly always: then the sink need not be asked
		t.ready, t.behind = now, false
		return
	}
	behind, read := sink.Behind()
	switch {
	case !behind:
		t.per = 0
	case !t.behind:
		t.went, t.read = now, read
	case read > t.read:
		per := min(now.Sub(t.went)/time.Duration(read-t.read), longest)
		if t.per == 0 {
			t.per = per
		}
		t.per = (3*t.per + per) / 4
		t.went, t.read = now, read
	case now.Sub(t.went) > stuckFor || read < t.read: // or another handler is the one behind
		t.per, t.went, t.read = 0, now, read
	}
	t.behind = behind
	if left := time.Duration(events)*t.per*9/8 - took; t.per > 0 && left > 0 {
		sleep(ctx, left)
	}
	t.ready = time.Now()
}

// sleep blocks for t, or until ctx ends.
func sleep(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
