package reflector

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// probeTimeout is the initial and the minimum limit. kube-apiserver responds to a probe within 3
	// s, with the version or with an error.
	probeTimeout = 10 * time.Second
	// maxProbeTimeout is the maximum limit. kube-apiserver ends any request within a minute.
	maxProbeTimeout = time.Minute
)

// probeLimit is how long a reflector waits for the response to a probe. If a probe gets no response
// in time, the limit doubles; otherwise, no probe would ever get a response over a network that is
// always slow. When a probe gets a response, or the first bytes of a list arrive, the limit becomes
// twice the time since the request. The zero value is ready to use. It is safe for concurrent use.
type probeLimit struct {
	mu   sync.Mutex
	more time.Duration // the limit minus probeTimeout; at most maxProbeTimeout - probeTimeout
}

// errLate is the cause of a probe's error if the response did not arrive within the limit.
var errLate = errors.New("no answer in time")

// within calls ask with a context that ends at the limit. It adjusts the limit to the time that ask
// took.
func (p *probeLimit) within(ctx context.Context, ask func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit(), errLate)
	defer cancel()
	began := time.Now()
	rv, err := ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.extend(2 * time.Since(began))
	case context.Cause(ctx) == errLate:
		p.extend(2 * (probeTimeout + p.more))
	}
	return rv, err
}

// listed adjusts the limit to the time that the first bytes of a list took to arrive.
func (p *probeLimit) listed(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extend(2 * took)
}

// extend sets the limit to the given time, but at least to probeTimeout and at most to
// maxProbeTimeout. The caller must hold p.mu.
func (p *probeLimit) extend(to time.Duration) {
	p.more = min(max(to, probeTimeout), maxProbeTimeout) - probeTimeout
}

func (p *probeLimit) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return probeTimeout + p.more
}
