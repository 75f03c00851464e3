package reflector

import (
	"context"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// throttle leaves CPU to a handler that is running and has fallen behind. If events arrive faster
// than the handler can process them, they wait or are coalesced. To read them that early gains
// nothing, and takes CPU from the handler. So throttle makes the reflector read events a little
// slower than the handler processes them, until the handler has caught up. A blocked handler never
// slows the reflector.
type throttle struct {
	ready  time.Time // when the last wait ended
	behind bool      // whether a handler was behind then
	// When the handler was last seen to advance, how many changes it had read then, and its mean
	// time for one change.
	went time.Time
	read uint64
	per  time.Duration
}

const (
	// maxThrottle bounds the wait for one event. A handler that needs longer for an event has most
	// of the CPU anyway. With 150 µs a reflector still reads 5,900 events a second, which is more
	// than a kube-apiserver sends on one watch for long. To read and decode JSON takes about four
	// times as long.
	maxThrottle     = 150 * time.Microsecond
	maxThrottleJSON = 4 * maxThrottle
	// stuckFor is the time without a read after which a handler counts as waiting for something
	// other than CPU.
	stuckFor = 50 * time.Millisecond
)

// longestWait returns the longest wait for one event of an encoding.
func longestWait(encoding wire.Encoding) time.Duration {
	if encoding == wire.JSON {
		return maxThrottleJSON
	}
	return maxThrottle
}

// wait blocks after the driver has read a number of events, until it is time to read more or ctx
// ends. It waits at most longest for each event.
func (t *throttle) wait(ctx context.Context, sink Sink, events int, longest time.Duration) {
	now := time.Now()
	took := now.Sub(t.ready)
	if took >= time.Duration(events)*longest { // nearly always: then it need not ask the sink
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
	case now.Sub(t.went) > stuckFor || read < t.read: // or a different handler is behind now
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
