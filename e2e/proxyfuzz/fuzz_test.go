package proxyfuzz

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

var (
	seed     = flag.Uint64("proxyfuzz.seed", 0, "what decides the permissions and requests; 0: the time does, but for the first round, which is the same each time")
	requests = flag.Uint64("proxyfuzz.requests", 1000, "how many requests are sent")
	only     = flag.Int64("proxyfuzz.only", -1, "the number of the one request to send, with the permissions of its round")
	inFlight = flag.Int("proxyfuzz.parallel", 96, "how many requests are under way at once: most of the time they wait for a watch to end")
)

const (
	// fixedSeed is the default seed of the first round. It is constant, so that a fault in the first
	// round is found again in each run.
	fixedSeed = 5
	// maxFaults is the number of faults after which the fuzzer stops.
	maxFaults = 10
	// aRound bounds the duration of a round on a busy machine. starting bounds the start of the
	// servers, which includes building them.
	aRound, starting = 2 * time.Minute, 20 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard()) // klog would log each expired token
	os.Exit(m.Run())
}

// TestProxyFuzz sends random requests to the proxy and to kube-apiserver, and compares the answers.
// It also checks that no request changed an object.
func TestProxyFuzz(t *testing.T) {
	rounds := int((*requests + roundsOf - 1) / roundsOf)
	ctx := begin(t, starting+time.Duration(rounds)*aRound)
	if *seed == 0 && *only >= 0 {
		t.Fatal("-proxyfuzz.only needs the -proxyfuzz.seed of the request")
	}
	seedOf := seeds()
	w := newWorld(t, ctx)
	w.giveForGood(t, ctx)
	f := &fuzzer{world: w}
	begun := time.Now()
	for round := range rounds {
		f.seed = seedOf(round)
		first, last := uint64(round)*roundsOf, min(*requests, uint64(round+1)*roundsOf)
		if *only >= 0 {
			if n := uint64(*only); n < first || n >= last {
				continue
			}
			first, last = uint64(*only), uint64(*only)+1
		}
		w.grant(t, ctx, round+1, grantsOf(newDice(f.seed, 1<<32+uint64(round))))
		f.run(ctx, first, last)
		if !maps.Equal(w.list(t, ctx), w.frozen) {
			t.Fatalf("the requests from %d to %d have changed objects: no answer can be compared", first, last)
		}
		if f.faults.Load() >= maxFaults || ctx.Err() != nil {
			break
		}
		if round%20 == 19 {
			fmt.Fprintf(os.Stderr, "proxyfuzz: %s\n", f.tally(time.Since(begun)))
		}
	}
	for _, e := range f.found {
		t.Errorf("seed %d, request %d: %v", e.seed, e.request.number, e.faults)
	}
	fmt.Fprintf(os.Stderr, "proxyfuzz: %s\n", f.tally(time.Since(begun)))
	if *only < 0 {
		f.worthIt(t)
	}
}

// seeds prints the seeds to stderr, and returns a function that returns the seed of a round.
func seeds() func(round int) uint64 {
	if *seed != 0 {
		fmt.Fprintf(os.Stderr, "proxyfuzz: seed %d\n", *seed)
		return func(int) uint64 { return *seed }
	}
	now := uint64(time.Now().UnixMilli())
	fmt.Fprintf(os.Stderr, "proxyfuzz: seed %d, and %d for the first %d requests\n", now, fixedSeed, roundsOf)
	return func(round int) uint64 {
		if round == 0 {
			return fixedSeed
		}
		return now
	}
}

// fuzzer sends requests and counts the results.
type fuzzer struct {
	seed         uint64 // seed of the current round
	world        *world
	sent, faults atomic.Int64
	// held counts answers from the proxy's cache. shown counts answers that contain objects.
	held, shown    atomic.Int64
	refused, pages atomic.Int64
	compared       atomic.Int64 // answers from the proxy's cache whose bodies were compared
	mu             sync.Mutex
	found          []*exchange // exchanges with faults, up to maxFaults
}

// run sends the requests with the numbers from first to last-1. It returns when all are answered,
// or earlier after maxFaults faults.
func (f *fuzzer) run(ctx context.Context, first, last uint64) {
	var next atomic.Uint64
	next.Store(first)
	var workers sync.WaitGroup
	for range min(*inFlight, int(last-first)) {
		workers.Go(func() { // returns after the last request
			for n := next.Add(1) - 1; n < last && ctx.Err() == nil && f.faults.Load() < maxFaults; n = next.Add(1) - 1 {
				f.one(ctx, n)
			}
		})
	}
	workers.Wait()
}

func (f *fuzzer) one(ctx context.Context, number uint64) {
	d := newDice(f.seed, number)
	q := requestOf(d, number, f.world.callers)
	e := f.world.ask(ctx, q, f.world.fillIn(q.target), "")
	f.note(e)
	if e.ours.err == nil && e.ours.next != "" && e.theirs.err == nil && e.theirs.next != "" {
		f.pages.Add(1)
		f.note(f.world.goOn(ctx, d, e))
	}
}

func (f *fuzzer) note(e *exchange) {
	f.sent.Add(1)
	e.seed = f.seed
	if e.ours.err == nil {
		switch {
		case e.ours.code >= 400:
			f.refused.Add(1)
		case len(e.ours.uids) > 0:
			f.shown.Add(1)
		}
		if e.ours.code == 200 && e.ours.header.Get("Audit-Id") == "" {
			f.held.Add(1)
			if e.compared {
				f.compared.Add(1)
			}
		}
	}
	if len(e.faults) == 0 {
		return
	}
	f.faults.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.found) < maxFaults {
		f.found = append(f.found, e)
		fmt.Fprintf(os.Stderr, "proxyfuzz: %v\n%vgo test ./proxyfuzz -proxyfuzz.seed %d -proxyfuzz.only %d\n", e.faults, e, e.seed, e.request.number)
	}
}

func (f *fuzzer) tally(took time.Duration) string {
	n := f.sent.Load()
	return fmt.Sprintf("seed %d: %d requests, %.0f a second; %d answered from what the proxy holds, %d of them compared by their bytes, %d with objects, %d refused, %d pages; %d faults",
		f.seed, n, float64(n)/took.Seconds(), f.held.Load(), f.compared.Load(), f.shown.Load(), f.refused.Load(), f.pages.Load(), f.faults.Load())
}

// worthIt fails the test if too few answers came from the cache, were compared, contained objects,
// or were refused. Such a run could not have found many faults.
func (f *fuzzer) worthIt(t *testing.T) {
	if n := f.sent.Load(); f.held.Load() < n/20 || f.compared.Load() < n/20 || f.shown.Load() < n/20 || f.refused.Load() < n/20 {
		t.Errorf("the requests are not worth much: %s", f.tally(time.Second))
	}
}

// dice draws the random values of one request, or of a round's permissions.
type dice struct{ *rand.Rand }

// newDice returns the dice of a request or a round. The seed and the number of the request or round
// determine all random values, so that each request can be repeated alone.
func newDice(seed, of uint64) dice { return dice{rand.New(rand.NewPCG(seed, of))} }

func (d dice) percent(n int) bool { return d.IntN(100) < n }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// some returns random elements of a list (from), each at most once. The number of elements is
// random: at least 1, and at most the parameter most.
func some[T any](d dice, most int, from ...T) []T {
	var out []T
	for _, i := range d.Perm(len(from))[:1+d.IntN(min(most, len(from)))] {
		out = append(out, from[i])
	}
	return out
}
