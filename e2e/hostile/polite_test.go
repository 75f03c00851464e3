package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// listPods is the path of a LIST of all pods, which the proxy answers from its cache.
const listPods = "/api/v1/pods?resourceVersion=0"

// polite is a kind of well-behaved client.
type polite struct {
	name string
	ask  func(ctx context.Context, i int) error // sends request number i
}

// politeClients returns the kinds of well-behaved clients of a victim. The result done closes their
// connections. If the address from is not empty, all of them connect from it. New users are users
// whose tokens the victim has not seen; first is the number of the first one.
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
	// Each probe opens a new connection, as a kubelet's probe does.
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

// list LISTs all pods, and checks the size of the response.
func (c *client) list(ctx context.Context) error {
	body, err := c.get(ctx, listPods)
	if err == nil && len(body) < podCount*1000 {
		return fmt.Errorf("a list of %d pods has %d bytes", podCount, len(body))
	}
	return err
}

// tally has the latencies and failures of the requests of one kind. add is safe for concurrent use.
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

// reason returns the innermost error of a failed request. Its text has no addresses, so equal
// failures have equal texts.
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

// p99 returns the 99th percentile of the latencies.
func (y *tally) p99() time.Duration {
	slices.Sort(y.latencies)
	return y.latencies[(len(y.latencies)*99+99)/100-1]
}

// ask sends n requests of each kind, evenly distributed over the given time. It sends each request
// when it is due, even if earlier requests are not answered.
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

// failures describes the failed requests of each kind, sorted by kind.
func failures(tallies map[string]*tally) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(tallies)) {
		if y := tallies[name]; len(y.failures) > 0 {
			out = append(out, fmt.Sprintf("%s: %d of %d answered with 200, others: %v", name, y.answered(), y.asked(), y.failures))
		}
	}
	return out
}

// requestTimeout bounds a request of a well-behaved client.
const requestTimeout = 30 * time.Second

// client is a well-behaved client of a victim.
type client struct {
	base      string
	token     string
	transport *http.Transport
}

// newClient returns a client that connects from a loopback address. If token is empty, the client
// sends no token.
func newClient(v *victim, from, token string) *client {
	return newClientOf("https://"+v.address, v, from, token)
}

// newHealthClient returns a client of the proxy's --health-listen address.
func newHealthClient(v *victim, from string) *client {
	return newClientOf("http://"+v.health, v, from, "")
}

func newClientOf(base string, v *victim, from, token string) *client {
	return &client{base: base, token: token, transport: &http.Transport{
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
		TLSClientConfig:   &tls.Config{RootCAs: v.roots, NextProtos: []string{"h2", "http/1.1"}},
		ForceAttemptHTTP2: true,
	}}
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// get returns the body of a response with status 200. If the status is not 200, it returns a
// statusError.
func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.kubernetes.protobuf, application/json, */*")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = statusError(resp.StatusCode)
	}
	return body, err
}

// reconnecting returns the number of clients that reconnect after a restart.
func reconnecting() int {
	if *timed {
		return clientCount
	}
	return 50
}

// reconnect restarts the proxy during the attack. When the proxy is ready, clients with valid
// tokens connect at the same time, as they do behind a Service. It returns how many of them were
// answered, and the seconds from the proxy's start to the last answer.
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

// untilServed repeats a GET until it succeeds. As common clients do, it waits a second before the
// first retry, and twice as long before each further one, up to 8 s. It returns false after five
// minutes.
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
