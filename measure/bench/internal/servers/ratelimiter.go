package servers

import (
	"context"
	"io"
	"time"
)

// slack is how much a rateLimiter that fell behind makes up for at once.
const slack = 100 * time.Millisecond

// rateLimiter lets things pass at a rate. The zero value lets everything pass. Not safe for
// concurrent use.
type rateLimiter struct {
	perSecond float64
	next      time.Time
}

// wait blocks until it is time for the next n. The error is that of ctx.
func (l *rateLimiter) wait(ctx context.Context, n float64) error {
	if l.perSecond <= 0 {
		return ctx.Err()
	}
	now := time.Now()
	if earliest := now.Add(-slack); l.next.Before(earliest) {
		if l.next.IsZero() {
			earliest = now
		}
		l.next = earliest
	}
	left := l.next.Sub(now)
	l.next = l.next.Add(time.Duration(n / l.perSecond * float64(time.Second)))
	if left <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// throttled reads no faster than its limiter lets pass, in bytes, and in small pieces so that it
// takes them evenly.
type throttled struct {
	ctx     context.Context
	r       io.Reader
	limiter rateLimiter
}

// pieces is into how many reads a throttled cuts a second.
const pieces = 100

func newThrottled(ctx context.Context, r io.Reader, bytesPerSecond float64) *throttled {
	return &throttled{ctx: ctx, r: r, limiter: rateLimiter{perSecond: bytesPerSecond}}
}

func (s *throttled) Read(p []byte) (int, error) {
	if most := max(int(s.limiter.perSecond/pieces), 1); len(p) > most {
		p = p[:most]
	}
	n, err := s.r.Read(p)
	if waitErr := s.limiter.wait(s.ctx, float64(n)); err == nil {
		err = waitErr
	}
	return n, err
}
