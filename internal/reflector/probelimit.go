package reflector

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// probeTimeout bounds a question for the newest resourceVersion. kube-apiserver answers within
	// 3 s, or says that it cannot.
	probeTimeout = 10 * time.Second
	// probeTimeoutMax bounds what the limit grows to: kube-apiserver gives a request up within a
	// minute.
	probeTimeoutMax = time.Minute
)

// probeLimit is how long a server may take to answer a question for its newest resourceVersion.
// Whoever asked in vain waits twice as long the next time: a way that is slow all the time would
// else answer none. A list that was answered tells how slow the way is. The zero value is ready. It
// is safe for concurrent use.
type probeLimit struct {
	mu   sync.Mutex
	more time.Duration // than probeTimeout; <= probeTimeoutMax - probeTimeout
}

// errLate is the cause of the end of a question that was not answered in time.
var errLate = errors.New("no answer in time")

// within calls ask with a context that ends when the answer has been waited for long enough.
func (p *probeLimit) within(ctx context.Context, ask func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit(), errLate)
	defer cancel()
	rv, err := ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.more = 0
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

// extend makes the limit so long, within its bounds. The lock is held.
func (p *probeLimit) extend(to time.Duration) {
	p.more = min(max(to, probeTimeout), probeTimeoutMax) - probeTimeout
}

// limit returns how long the next answer is waited for.
func (p *probeLimit) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return probeTimeout + p.more
}
