package hostile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// reconnecting is how many clients reconnect after a restart.
func reconnecting() int {
	if *timed {
		return clientCount
	}
	return 50
}

// reconnect restarts the proxy during the attack, and makes clients with valid tokens reconnect
// when it is ready, like a Service. It returns how many were answered, and the time from the
// proxy's start to the last of these answers.
func (k *attack) reconnect(t *testing.T, ctx context.Context, p *weirProxy, address string) (answered int, seconds float64) {
	t.Helper()
	attack, cancel := context.WithCancel(ctx)
	defer cancel()
	a := k.begin(t, attack, &p.victim, attackerAddress, *attackFor)
	defer a.end()
	defer cancel()
	p.restart(t)
	start := time.Now()
	p.awaitReady(t, ctx)
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range reconnecting() {
		from := address
		if from == "" {
			from = fmt.Sprintf("127.0.1.%d", 1+i%50)
		}
		c := newClient(&p.victim, from, token(t, clientUser(i)))
		all.Go(func() {
			defer c.close()
			if c.untilServed(ctx) {
				served.Add(1)
			}
		})
	}
	all.Wait()
	seconds = time.Since(start).Seconds()
	if n := int(served.Load()); n < reconnecting() {
		t.Errorf("of %d clients that came back after a restart %d were served in %.0f s", reconnecting(), n, seconds)
	}
	return int(served.Load()), seconds
}

// untilServed repeats a small read until it is answered, as clients do: after a second, and longer
// each time. It gives up after five minutes.
func (c *client) untilServed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	pod := pods.Pod(0)
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s?resourceVersion=0", pod.Namespace, pod.Name)
	for pause := time.Second; ; pause = min(2*pause, 8*time.Second) {
		if _, err := c.get(ctx, path); err == nil {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}
