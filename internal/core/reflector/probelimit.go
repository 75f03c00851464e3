package reflector

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// probeTimeout is the first limit for the answer to a probe. kube-apiserver answers within 3 s,
	// or says that it cannot.
	probeTimeout = 10 * time.Second
	// maxProbeTimeout bounds the growth of the limit. kube-apiserver ends a request within a
	// minute.
	maxProbeTimeout = time.Minute
)

// probeLimit is how long a server may take to answer a probe for its newest resourceVersion. It
// doubles after each probe that was not answered in time; otherwise, on a path that is always slow,
// no probe would ever be answered. When an answer arrives, or a list starts, the limit becomes
// twice the time that this took. The zero value is ready to use. It is safe for concurrent use.
type probeLimit struct {
	mu   sync.Mutex
	more time.Duration // added to probeTimeout; <= maxProbeTimeout - probeTimeout
}

// errLate is the cause when the server did not answer a probe in time.
var errLate = errors.New("no answer in time")

// within calls ask with a context that ends at the limit, and adjusts the limit by the result.
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

// listed adjusts the limit by the time that the beginning of a list took to arrive.
func (p *probeLimit) listed(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extend(2 * took)
}

// extend sets the limit to to, within the limit's bounds. The caller holds the lock.
func (p *probeLimit) extend(to time.Duration) {
	p.more = min(max(to, probeTimeout), maxProbeTimeout) - probeTimeout
}

// limit returns how long to wait for the answer to the next probe.
func (p *probeLimit) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return probeTimeout + p.more
}
