package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// Outcome is the result of running a world.
type Outcome struct {
	Violations []Violation
	Log        string
	Rest       time.Duration // from the last step to the time when there were no problems
}

// Violation is a failed check.
type Violation struct {
	Rule   string // the name of the violated check
	Runner string
	At     time.Duration
	Text   string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s (%s) at %v: %s", v.Rule, v.Runner, v.At, v.Text)
}

// run executes one world.
type run struct {
	world   *World
	cluster *api.Cluster
	clients []*client
	orders  bool // servers send the same object with its keys in different orders
	logging bool

	calm      bool // clients can receive every change (World.Calm)
	unordered bool // clients cannot distinguish old events from new ones (World.Unordered)
	late      bool // a server has lagged for longer than patience; guarded by mu

	over  context.Context // ends when the run ends
	end   context.CancelFunc
	waits sync.WaitGroup
	reads atomic.Int64 // the number of reads by await

	mu  sync.Mutex
	rng *rand.Rand
	log strings.Builder
	out Outcome
}

// client is one program of the world, with one informer.
type client struct {
	spec     ClientSpec
	index    int
	api      *api.Client
	informer informer
	handlers []*handler
	cancel   context.CancelFunc
	done     chan struct{}
	read     map[api.Key]last // the last object that a read returned, by key
	troubled time.Duration    // when Err was last not nil
}

// execute runs a world and returns the outcome.
func execute(t *testing.T, w *World, logging bool) (out *Outcome) {
	r := &run{world: w, logging: logging, rng: rand.New(rand.NewPCG(w.Seed, 2))}
	defer func() {
		if p := recover(); p != nil {
			r.violate("deadlock", nil, "%v\n%s", p, bubbles())
		}
		r.out.Log = r.log.String()
		out = &r.out
	}()
	synctest.Test(t, func(*testing.T) { r.execute() })
	return &r.out
}

// elapsed is the total virtual time of all worlds so far. The clock of each bubble starts at the
// same time. Some libraries store a time in a global variable, such as the time of the last error,
// and fail if the clock goes back. Each run therefore starts with a sleep of elapsed.
var elapsed time.Duration

func (r *run) execute() {
	time.Sleep(elapsed)
	defer func(began time.Time) { elapsed += time.Since(began) + time.Second }(time.Now())
	before := runtime.NumGoroutine()
	r.build()
	for _, s := range r.world.Steps {
		if s.precedes() {
			r.step(s)
		}
	}
	for _, c := range r.clients {
		r.start(c)
	}
	r.steps()
	if !r.failed() {
		r.unwatched()
		r.rest()
	}
	r.stop()
	time.Sleep(time.Millisecond) // time for readers that yielded while their bodies were closed
	synctest.Wait()
	if n := runtime.NumGoroutine(); n > before && !r.failed() {
		r.violate("goroutines", nil, "%d are left after the stop\n%s", n-before, bubbles())
	}
}

func (r *run) build() {
	w := r.world
	h := api.NewHistory(w.Base, w.Scheme)
	for _, s := range w.Before {
		r.write(h, s, -time.Hour)
	}
	kind := api.Widgets
	if w.Builtin {
		kind = api.ConfigMaps
	}
	r.over, r.end = context.WithCancel(context.Background())
	r.calm, r.unordered = w.Calm(), w.Unordered()
	r.cluster = api.NewCluster(kind, h, w.Servers)
	r.cluster.Yield = r.yield
	if r.logging {
		r.cluster.Logf = r.logf
	}
	for _, s := range w.Servers {
		r.orders = r.orders || s.Order != w.Servers[0].Order || w.Builtin && s.Plain != w.Servers[0].Plain
	}
	for i, spec := range w.Clients {
		r.clients = append(r.clients, r.client(i, spec))
	}
}

func (r *run) client(i int, spec ClientSpec) *client {
	spec.backoff.Random = newJitter(r.world.Seed, uint64(i))
	c := &client{spec: spec, index: i, api: r.cluster.Client(fmt.Sprintf("%s %d", spec.Runner, i), len(spec.Scope.pairs())), done: make(chan struct{}), read: map[api.Key]last{}}
	var err error
	if c.informer, err = runners[spec.Runner](r.cluster, c.api, spec); err != nil {
		panic(err)
	}
	if ch, ok := c.informer.(*chain); ok {
		ch.checkedBy(r, c)
	}
	for j, hs := range spec.Handlers {
		h := &handler{run: r, client: c, spec: hs, scope: spec.Scope.filtered(hs.Filter), name: fmt.Sprintf("client %d handler %d", i, j), seen: map[api.Key]last{}, steady: map[api.Key][]pair{}}
		c.handlers = append(c.handlers, h)
		if hs.Add == 0 {
			r.handle(h)
		}
	}
	return c
}

// newJitter returns the source of random numbers for a client's backoff. It is safe for concurrent
// use.
func newJitter(seed, client uint64) func() float64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 3+client))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
}

func (r *run) handle(h *handler) {
	var held map[api.Key]api.Representation
	if h.spec.Add > 0 {
		held = r.readClient(h.client, false).objects
	}
	r.cluster.Do(func(hist *api.History) {
		h.steadyMu.Lock()
		defer h.steadyMu.Unlock()
		for _, v := range hist.Era().At(hist.Era().Head()) {
			if !r.maySyncOld(h.client) && h.scope.matches(v) && (h.spec.Add == 0 || h.scope.matches(held[v.Key].Version)) {
				h.steady[v.Key] = h.scope.choosing(v)
			}
		}
	})
	reg, err := h.client.informer.Handle(h)
	if err != nil {
		r.violate("handle", h.client, "%s: %v", h.name, err)
		return
	}
	h.mu.Lock()
	h.reg = reg
	h.mu.Unlock()
}

func (r *run) start(c *client) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		c.informer.Run(ctx)
	}()
}

func (r *run) stop() {
	r.end()
	r.waits.Wait()
	for _, c := range r.clients {
		c.cancel()
	}
	for _, c := range r.clients {
		<-c.done
	}
}

// now returns the virtual time since the world's start.
func (r *run) now() time.Duration { return r.cluster.Now() }

// yield lets other goroutines run first, at random.
func (r *run) yield() {
	r.mu.Lock()
	n := r.rng.IntN(100)
	r.mu.Unlock()
	switch {
	case n < 60:
	case n < 85:
		runtime.Gosched()
	case n < 92:
		runtime.Gosched()
		runtime.Gosched()
	default:
		time.Sleep(time.Duration(n-91) * time.Microsecond)
	}
}

func (r *run) logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, "%-14v ", r.now())
	fmt.Fprintf(&r.log, format, args...)
	r.log.WriteByte('\n')
}

func (r *run) violate(rule string, c *client, format string, args ...any) {
	if r.excused(rule, c) {
		return
	}
	v := Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	if r.cluster != nil && rule != "deadlock" {
		v.At = r.now()
	}
	if c != nil {
		v.Runner = c.spec.Runner
	} else {
		v.Runner = r.world.Clients[0].Runner
	}
	r.mu.Lock()
	r.out.Violations = append(r.out.Violations, v)
	r.mu.Unlock()
	if r.logging && rule != "deadlock" {
		r.logf("VIOLATION %v", v)
	}
}

// excused reports whether the checks ignore a violation of this rule by c. If a replica, or a
// server that serves all LISTs from its cache, lags too long, the client takes it for a restored
// server. The client may then go back to that server's state. Only the rules whose names contain
// "back", and spurious-delete, can be excused.
func (r *run) excused(rule string, c *client) bool {
	if c == nil || !strings.Contains(rule, "back") && rule != "spurious-delete" {
		return false
	}
	r.observe(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late
}

// observe records whether a server or a replica that c uses has lagged for longer than patience.
func (r *run) observe(c *client) {
	late := r.cluster.Late(patience)
	if ch, ok := c.informer.(*chain); ok {
		now := r.now()
		r.cluster.Do(func(h *api.History) { late = late || ch.lag(h, now) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = r.late || late
}

// maySyncOld reports whether a client may sync with a state that is older than objects that it has
// received. A client may do so after a list that failed in the middle, or if it accepts any state:
// its next list then has the condition "not older than version V". An old server ignores the
// condition and serves the state at exactly V. Objects of an earlier list may be newer than V.
func (r *run) maySyncOld(c *client) bool {
	return (c.spec.Any || r.world.breaksOff()) && slices.ContainsFunc(r.world.Servers, func(s api.Spec) bool { return s.Old })
}

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.out.Violations) > 0
}

// bubbles returns the stacks of the goroutines in the newest synctest bubble, except those that
// every bubble has.
func bubbles() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var newest string
	var all []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		_, bubble, ok := strings.Cut(head, "synctest bubble ")
		switch {
		case !ok || strings.Contains(g, "internal/synctest.Run") || strings.Contains(g, "testingSynctestTest(") || strings.Contains(g, "sim.bubbles("):
		case len(bubble) > len(newest) || len(bubble) == len(newest) && bubble > newest:
			newest, all = bubble, []string{g}
		case bubble == newest:
			all = append(all, g)
		}
	}
	return strings.Join(all, "\n\n")
}
