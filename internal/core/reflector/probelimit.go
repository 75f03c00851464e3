package reflector

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// probeTimeout is the first limit for a question for the newest resourceVersion. kube-apiserver
	// answers within 3 s, or says that it cannot.
	probeTimeout = 10 * time.Second
	// maxProbeTimeout bounds what the limit grows to. kube-apiserver gives a request up within a
	// minute.
	maxProbeTimeout = time.Minute
)

// probeLimit is how long a server may take to answer a question for its newest resourceVersion. It
// doubles after each question that was not answered in time; otherwise a path that is always slow
// would answer none. The time that an answer took, or the beginning of a list, tells how slow the
// path is. The zero value is ready to use. It is safe for concurrent use.
type probeLimit struct {
	mu   sync.Mutex
	more time.Duration // than probeTimeout; <= maxProbeTimeout - probeTimeout
}

// errLate is the cause when a question was not answered in time.
var errLate = errors.New("no answer in time")

// within calls ask with a context that ends at the limit, and adapts the limit to the result.
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

// listed notes how long the beginning of a list took to come.
func (p *probeLimit) listed(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extend(2 * took)
}

// extend sets the limit to to, within its bounds. The caller holds the lock.
func (p *probeLimit) extend(to time.Duration) {
	p.more = min(max(to, probeTimeout), maxProbeTimeout) - probeTimeout
}

// limit returns how long to wait for the next answer.
func (p *probeLimit) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return probeTimeout + p.more
}
