package reflector

import (
	"cmp"
	"context"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// throttle leaves CPU time to a handler that runs and has fallen behind. If the reflector reads
// events faster than the handler processes them, the events wait or are coalesced. Reading them
// early has no benefit, and takes CPU time from the handler. So throttle makes the reflector read
// events a little slower than the handler processes them, until the handler has caught up. A
// handler that is blocked does not slow the reflector.
type throttle struct {
	ready  time.Time // when the last wait ended
	behind bool      // whether a handler was behind at that time
	// went is the time at which the handler was last seen to advance. read is the number of changes
	// that it had read at that time. per is its average time for one change.
	went time.Time
	read uint64
	per  time.Duration
}

const (
	// maxThrottle is the maximum wait for one event. A handler that needs longer for an event already
	// has most of the CPU time. With waits of 150 µs, a reflector still reads 5,900 events per second.
	// kube-apiserver does not send that many on one watch for long. For JSON the maximum wait is four
	// times as long, because reading and decoding an event in JSON takes about four times as long.
	maxThrottle     = 150 * time.Microsecond
	maxThrottleJSON = 4 * maxThrottle
	// stuckFor is the time without a read after which a handler is considered blocked: it waits for
	// something other than CPU time.
	stuckFor = 50 * time.Millisecond
)

// longestWait returns the maximum wait for one event of an encoding.
func longestWait(encoding wire.Encoding) time.Duration {
	if encoding == wire.JSON {
		return maxThrottleJSON
	}
	return maxThrottle
}

// wait is called after the driver has read a number of events. It blocks until the driver should
// read more, or until ctx ends. If the handler needs more time than longest for an event, wait
// assumes that it needs longest.
func (t *throttle) wait(ctx context.Context, sink Sink, events int, longest time.Duration) {
	now := time.Now()
	took := now.Sub(t.ready)
	// the usual case: events arrive slowly, so there is no need to call Behind
	if took >= time.Duration(events)*longest {
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
		t.per = cmp.Or(t.per, per)
		t.per = (3*t.per + per) / 4
		t.went, t.read = now, read
	// the handler is blocked or, if read < t.read, a different handler is behind now
	case now.Sub(t.went) > stuckFor || read < t.read:
		t.per, t.went, t.read = 0, now, read
	}
	t.behind = behind
	if left := time.Duration(events)*t.per*9/8 - took; t.per > 0 && left > 0 {
		sleep(ctx, left)
	}
	t.ready = time.Now()
}

func sleep(ctx context.Context, t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
