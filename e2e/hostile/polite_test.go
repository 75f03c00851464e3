package hostile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// listPods reads all pods.
const listPods = "/api/v1/pods?resourceVersion=0"

// polite is one kind of well-behaved client.
type polite struct {
	name string
	ask  func(ctx context.Context, i int) error // the request number i
}

// politeClients returns the well-behaved clients of a victim, and what closes their connections. If
// from is not empty, all connect from that address. first is the number of the first new caller.
func politeClients(t *testing.T, v *victim, from string, first int) (of []polite, done func()) {
	t.Helper()
	at := func(address string) string {
		if from != "" {
			return from
		}
		return address
	}
	reader := newClient(v, at(politeAddress), token(t, known))
	of = append(of, polite{"list-known", func(ctx context.Context, _ int) error { return reader.list(ctx) }})
	var tokens []string
	for i := range newUsers {
		tokens = append(tokens, token(t, newUser(i)))
	}
	of = append(of, polite{"list-new", func(ctx context.Context, i int) error {
		c := newClient(v, at(newAddress), tokens[(first+i)%newUsers])
		defer c.close()
		return c.list(ctx)
	}})
	// Each probe has its own connection, like those of kubelets.
	probe := func(name, path string, open func() *client) {
		of = append(of, polite{name, func(ctx context.Context, _ int) error {
			c := open()
			defer c.close()
			_, err := c.get(ctx, path)
			return err
		}})
	}
	for _, name := range []string{"livez", "readyz"} {
		probe(name, "/"+name, func() *client { return newClient(v, at(probeAddress), "") })
		if v.health != "" {
			probe("health-"+name, "/"+name, func() *client { return newHealthClient(v, at(probeAddress)) })
		}
	}
	return of, reader.close
}

// list reads all pods.
func (c *client) list(ctx context.Context) error {
	body, err := c.get(ctx, listPods)
	if err == nil && len(body) < podCount*1000 {
		return fmt.Errorf("a list of %d pods has %d bytes", podCount, len(body))
	}
	return err
}

// tally counts the answers to the requests of one kind. It is safe for concurrent use.
type tally struct {
	mu        sync.Mutex
	latencies []time.Duration
	failures  map[string]int
}

func (y *tally) add(took time.Duration, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.latencies = append(y.latencies, took)
	if err != nil {
		y.failures[reason(err)]++
	}
}

// reason returns why a request failed, without addresses.
func reason(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

func (y *tally) asked() int { return len(y.latencies) }

func (y *tally) answered() int {
	n := len(y.latencies)
	for _, failed := range y.failures {
		n -= failed
	}
	return n
}

// p99 returns the time within which 99 of 100 requests were answered.
func (y *tally) p99() time.Duration {
	slices.Sort(y.latencies)
	return y.latencies[(len(y.latencies)*99+99)/100-1]
}

// ask sends n requests of each kind, spread evenly over a time. Each starts when it is due, whether
// or not earlier ones were answered.
func ask(ctx context.Context, of []polite, n int, over time.Duration) map[string]*tally {
	out := map[string]*tally{}
	var asked sync.WaitGroup
	for _, p := range of {
		y := &tally{failures: map[string]int{}}
		out[p.name] = y
		asked.Go(func() {
			i := 0
			var due sync.WaitGroup
			defer due.Wait()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			every(ctx, over/time.Duration(n), func() {
				number := i
				i++
				due.Go(func() {
					start := time.Now()
					err := p.ask(context.WithoutCancel(ctx), number)
					y.add(time.Since(start), err)
				})
				if i == n {
					cancel()
				}
			})
		})
	}
	asked.Wait()
	return out
}

// failures returns what failed, by kind, in a stable order.
func failures(tallies map[string]*tally) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		if y := tallies[name]; len(y.failures) > 0 {
			out = append(out, fmt.Sprintf("%s: %d of %d answered with 200, others: %v", name, y.answered(), y.asked(), y.failures))
		}
	}
	return out
}
