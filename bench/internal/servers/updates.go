package servers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/bench/internal/stride"
)

// maxWriters bounds how many writes are under way at once.
const maxWriters = 64

// updates changes pods at a rate, all of them in turn and neighbours far apart, and remembers what
// it wrote.
type updates struct {
	cancel  context.CancelCauseFunc
	writing sync.WaitGroup
	begun   time.Time

	mu      sync.Mutex
	last    []uint64 // by pod, the highest resourceVersion that it was given; 0: none
	count   int64
	elapsed time.Duration
	err     error
}

// startUpdates begins to write, until stop or the end of ctx. What cannot be written fast enough is
// not made up for.
func startUpdates(ctx context.Context, w writer, pods int, perSecond float64) *updates {
	u := &updates{begun: time.Now(), last: make([]uint64, pods)}
	ctx, u.cancel = context.WithCancelCause(ctx)
	type job struct {
		pod    int
		change int64
	}
	jobs := make(chan job)
	u.writing.Go(func() {
		defer close(jobs)
		p := rateLimiter{perSecond: perSecond}
		step := int64(stride.Of(pods))
		never := u.begun.UnixNano() // what was never written before: else nothing would change
		for k := int64(0); p.wait(ctx, 1) == nil; k++ {
			select {
			case jobs <- job{int(k * step % int64(pods)), never + k}:
			case <-ctx.Done():
				return
			}
		}
	})
	for range min(maxWriters, pods) {
		u.writing.Go(func() {
			for j := range jobs {
				// One that was begun is finished, so that it is known what was written.
				rv, err := w.write(context.WithoutCancel(ctx), j.pod, j.change)
				u.note(j.pod, rv, err)
			}
		})
	}
	return u
}

func (u *updates) note(pod int, rv uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.err = errors.Join(u.err, err)
		u.cancel(err)
		return
	}
	u.last[pod] = max(u.last[pod], rv)
	u.count++
}

// errUpdates is the error of a measurement whose updates have failed.
var errUpdates = errors.New("the updates have failed")

// stop ends the writing, waits for what is under way, and returns the last resourceVersion of each
// pod, 0 for those that were not written. A second call returns the same.
func (u *updates) stop() ([]uint64, error) {
	u.cancel(nil)
	u.writing.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.elapsed == 0 {
		u.elapsed = time.Since(u.begun)
	}
	if u.err != nil {
		return nil, errors.Join(errUpdates, u.err)
	}
	return u.last, nil
}

// rate returns how many writes there were in a second, until now or until stop.
func (u *updates) rate() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	elapsed := u.elapsed
	if elapsed == 0 {
		elapsed = time.Since(u.begun)
	}
	return float64(u.count) / max(elapsed.Seconds(), 1e-3)
}
