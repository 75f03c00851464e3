package reflector

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// probeTimeout bounds a question for the newest resourceVersion. kube-apiserver answers within 3 s, or says that it cannot.
	probeTimeout = 10 * time.Second
	// probeTimeoutMax bounds what the limit grows to: kube-apiserver gives a request up within a minute.
	probeTimeoutMax = time.Minute
)

// patience is how long a server may take to answer a question for its newest resourceVersion. Whoever asked in vain waits twice as long
// the next time: a way that is slow all the time would else answer none. The zero value is ready. It is safe for concurrent use.
type patience struct {
	mu   sync.Mutex
	late int // questions in a row that were not answered in time
}

// errLate is the cause of the end of a question that was not answered in time.
var errLate = errors.New("no answer in time")

// within calls ask with a context that ends when the answer has been waited for long enough.
func (p *patience) within(ctx context.Context, ask func(context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit(), errLate)
	defer cancel()
	rv, err := ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.late = 0
	case context.Cause(ctx) == errLate:
		p.late++
	}
	return rv, err
}

// limit returns how long the next answer is waited for.
func (p *patience) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(probeTimeout<<min(p.late, 8), probeTimeoutMax)
}
