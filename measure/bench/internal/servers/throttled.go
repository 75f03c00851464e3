package servers

import (
	"context"
	"io"
	"time"

	"golang.org/x/time/rate"
)

// newLimiter returns a limiter of events or bytes. The parameter perSecond is the number per
// second; 0 means no limit. A caller that was slower than the limit may then be faster, to make up
// for at most a tenth of a second.
func newLimiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	behind := int(perSecond / 10)
	l := rate.NewLimiter(rate.Limit(perSecond), 1+behind)
	l.AllowN(time.Now(), behind) // no catching up at the start
	return l
}

// throttled is a reader that reads no faster than its limiter allows. It reads small pieces, so
// that the bytes flow evenly.
type throttled struct {
	ctx     context.Context
	r       io.Reader
	limiter *rate.Limiter
	piece   int // the largest read
}

func newThrottled(ctx context.Context, r io.Reader, bytesPerSecond float64) *throttled {
	const pieces = 100 // per second
	return &throttled{ctx: ctx, r: r, limiter: newLimiter(bytesPerSecond), piece: max(int(bytesPerSecond/pieces), 1)}
}

func (s *throttled) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), s.piece)])
	if waitErr := s.limiter.WaitN(s.ctx, n); err == nil {
		err = waitErr
	}
	return n, err
}
