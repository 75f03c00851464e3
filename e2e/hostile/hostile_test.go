package hostile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const (
	// anonymousMemory is the memory, in bytes, that all clients without credentials together may cost.
	// One user may cost 1/userShare of the container's memory limit.
	anonymousMemory = 128 << 20
	userShare       = 4
	// heapSlack is the number of bytes by which the live heap may be larger after an attack than
	// before.
	heapSlack = 10 << 20
	// The following limits are checked only with -hostile.timed.
	maxLatency   = time.Second
	maxReconnect = time.Minute
	maxLeave     = 30 * time.Second
)

// deadline bounds a test. It is long, so that only a hang exceeds it.
func deadline() time.Duration { return 4**attackFor + 2*time.Minute }

// asks returns the number of requests that each kind of well-behaved client sends during an attack.
func asks() int {
	if *timed {
		return 100
	}
	return 10
}

// TestHostile runs each attack against a weir-proxy while well-behaved clients send requests from
// other addresses. It checks the memory that the attack costs, and that each well-behaved client is
// served.
func TestHostile(t *testing.T) {
	for _, k := range attacks {
		t.Run(k.name, func(t *testing.T) { k.test(t, "") })
	}
}

// TestSameAddress runs attacks from the address of the well-behaved clients, as if one load
// balancer were in front of all of them. Without -hostile.timed, it runs only two attacks.
func TestSameAddress(t *testing.T) {
	for _, k := range attacks {
		if *timed || slices.Contains([]string{"unread-livez", "unread-refusals"}, k.name) {
			t.Run(k.name, func(t *testing.T) { k.test(t, attackerAddress) })
		}
	}
}

// test runs the attack. If address is not empty, all clients connect from that address.
func (k *attack) test(t *testing.T, address string) {
	if stored(t) {
		return
	}
	if !*timed {
		t.Parallel() // without -hostile.timed, the test mostly waits, and checks no times
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline())
	defer cancel()
	r := &row{Attack: k.name, SameAddress: address != "", Seconds: attackFor.Seconds()}
	p := startProxy(t, ctx, k.more...)
	clients, done := politeClients(t, &p.victim, address, 0)
	defer done()

	calm := sample(ctx, p.pid())
	if failed := failures(ask(ctx, clients, max(asks()/10, 5), max(*attackFor/10, time.Second))); len(failed) > 0 {
		t.Fatalf("before the attack: %q", failed)
	}
	done()
	baseline, heap := p.atRest(t, ctx), p.liveHeap(t, ctx)
	r.CalmRSS = calm.stop()

	k.attack(t, ctx, p, clients, r)
	done()
	r.leave(t, ctx, p, baseline, heap)
	r.judge(t, k, p.limit)
	r.Reconnected, r.ReconnectSeconds = k.reconnect(t, ctx, p, address)
	if *timed {
		k.compare(t, ctx, r, address)
		r.judgeTimes(t)
	}
	r.print(t)
}

// attack attacks the proxy while well-behaved clients use it, and writes the measurements to r.
func (k *attack) attack(t *testing.T, ctx context.Context, p *weirProxy, clients []polite, r *row) {
	t.Helper()
	collections := len(p.collections(t))
	peak, before := sample(ctx, p.pid()), cpu(t, p.pid())
	attack, cancel := context.WithCancel(ctx)
	defer cancel()
	a := k.begin(t, attack, &p.victim, attackerAddress, *attackFor)
	r.Polite = summary(ask(ctx, clients, asks(), *attackFor), r)
	r.CPUSeconds = (cpu(t, p.pid()) - before).Seconds()
	r.PeakRSS = peak.stop()
	r.PeakLive = slices.Max(append(p.collections(t)[collections:], 0))
	cancel()
	a.end()
	r.Connections, r.Statuses, r.Ends = a.notes.read()
	check.NoError(t, p.program.Err())
}

// atRest waits until two successive reads of the proxy's gauges are equal, and returns the gauges.
// The proxy must have no clients.
func (p *weirProxy) atRest(t *testing.T, ctx context.Context) (g gauges) {
	t.Helper()
	last := gauges{}
	testenv.EventuallyNoError(t, ctx, "the proxy is at rest", func() (err error) {
		if g, err = p.gauges(t, ctx); err == nil && g != last {
			last, err = g, fmt.Errorf("%+v", g)
		}
		return err
	})
	return g
}

// leave waits until the connections and goroutines are at the baseline again. It then measures the
// memory that the attack has left allocated.
func (r *row) leave(t *testing.T, ctx context.Context, p *weirProxy, baseline gauges, heap int64) {
	t.Helper()
	start := time.Now()
	testenv.EventuallyNoError(t, ctx, "connections and goroutines are at the baseline", func() error {
		g, err := p.gauges(t, ctx)
		if err == nil && !g.rests(baseline) {
			err = fmt.Errorf("%+v, before the attack %+v", g, baseline)
		}
		return err
	})
	r.LeaveSeconds = time.Since(start).Seconds()
	r.LeftHeap = p.liveHeap(t, ctx) - heap
	var err error
	if r.LeftRSS, err = rss(p.pid()); err != nil {
		t.Fatal(err)
	}
}

// judge checks the measurements that do not depend on the speed of the machine.
func (r *row) judge(t *testing.T, k *attack, container int64) {
	t.Helper()
	limit := int64(anonymousMemory)
	if k.credentials {
		limit = container / userShare
	}
	if cost := r.PeakRSS - r.CalmRSS; cost > limit {
		t.Errorf("the attack cost %d MiB: from %d to %d; at most %d", cost>>20, r.CalmRSS>>20, r.PeakRSS>>20, limit>>20)
	}
	if r.LeftHeap > heapSlack {
		t.Errorf("the live heap is %d MiB larger than before the attack", r.LeftHeap>>20)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	for status, n := range r.Statuses {
		if code, err := strconv.Atoi(status); err != nil || !slices.Contains(k.statuses, code) {
			t.Errorf("attackers received %d times %q; want %d", n, status, k.statuses)
		}
	}
	if r.Connections == 0 {
		t.Error("no attacker has connected")
	}
}

// compare runs the same attack against a separate kube-apiserver, and writes the measurements to r.
func (k *attack) compare(t *testing.T, ctx context.Context, r *row, address string) {
	t.Helper()
	v := newAPIServer(t, ctx)
	clients, done := politeClients(t, v, address, newUsers/2)
	defer done()
	before := cpu(t, v.pid())
	attack, cancel := context.WithCancel(ctx)
	defer cancel()
	peak := sample(ctx, v.pid())
	a := k.begin(t, attack, v, attackerAddress, *attackFor)
	r.Upstream = summary(ask(ctx, clients, asks(), *attackFor), nil)
	r.UpstreamRSS = peak.stop()
	r.UpstreamCPUSeconds = (cpu(t, v.pid()) - before).Seconds()
	cancel()
	a.end()
}
