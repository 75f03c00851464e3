package servers

import (
	"context"
	"io"
	"time"
)

// slack is how much a pace that fell behind makes up for at once.
const slack = 100 * time.Millisecond

// pace lets things pass at a rate. The zero value lets everything pass. Not safe for concurrent
// use.
type pace struct {
	perSecond float64
	next      time.Time
}

// wait blocks until it is time for the next n. The error is that of ctx.
func (p *pace) wait(ctx context.Context, n float64) error {
	if p.perSecond <= 0 {
		return ctx.Err()
	}
	now := time.Now()
	if earliest := now.Add(-slack); p.next.Before(earliest) {
		if p.next.IsZero() {
			earliest = now
		}
		p.next = earliest
	}
	left := p.next.Sub(now)
	p.next = p.next.Add(time.Duration(n / p.perSecond * float64(time.Second)))
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

// throttled reads no faster than its pace, in bytes, and in small pieces so that it takes them
// evenly.
type throttled struct {
	ctx  context.Context
	r    io.Reader
	pace pace
}

// pieces is into how many reads a throttled cuts a second.
const pieces = 100

func newThrottled(ctx context.Context, r io.Reader, bytesPerSecond float64) *throttled {
	return &throttled{ctx: ctx, r: r, pace: pace{perSecond: bytesPerSecond}}
}

func (s *throttled) Read(p []byte) (int, error) {
	if most := max(int(s.pace.perSecond/pieces), 1); len(p) > most {
		p = p[:most]
	}
	n, err := s.r.Read(p)
	if waitErr := s.pace.wait(s.ctx, float64(n)); err == nil {
		err = waitErr
	}
	return n, err
}
