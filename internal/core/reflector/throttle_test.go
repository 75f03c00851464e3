package reflector

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// pacing is a store whose handlers have fallen behind, and the throttle for its writer.
type pacing struct {
	*testing.T
	s        *store.Store
	w        *store.Writer
	throttle throttle
	ctx      context.Context
	encoding wire.Encoding // of the watch
}

func newPacing(t *testing.T, ctx context.Context) *pacing {
	s := store.New(store.Config{Encoding: wire.Protobuf})
	return &pacing{T: t, s: s, w: s.Writer(store.Scope{}), ctx: ctx}
}

func (p *pacing) change(n int) {
	p.Helper()
	for i := range n {
		m := wire.Meta{Namespace: []byte("d"), Name: strconv.AppendInt(nil, int64(i%100), 10), UID: []byte("u"), ResourceVersion: strconv.AppendInt(nil, int64(i)+1, 10)}
		check.NoError(p, p.w.Put(&m, []byte{0x0a, 0}))
	}
	p.w.Flush()
}

// handle reads a cursor until stop is called, like a handler that needs a certain time (per) for
// each event.
func (p *pacing) handle(c *store.Cursor, per time.Duration, batch int) (stop func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(per * time.Duration(batch))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.Next(make([]store.Change, batch))
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// took returns how long the throttle waits after maxBatch events that arrived at the same time.
func (p *pacing) took() time.Duration {
	begin := time.Now()
	p.throttle.wait(p.ctx, p.w, maxBatch, longestWait(p.encoding))
	return time.Since(begin)
}

// TestThrottle checks that the reflector reads events a little slower than a handler that is behind
// processes them, up to a limit. The sizes of the handler's batches must not matter. The throttle
// must not wait for a handler that keeps up, or for one that is blocked.
func TestThrottle(t *testing.T) {
	for name, test := range map[string]struct {
		per    time.Duration // the handler's time for an event
		batch  int           // the number of events that the handler reads in one step
		behind bool
		json   bool
		want   time.Duration // the expected time for an event
	}{
		"a quick handler":             {20 * time.Microsecond, 10, true, false, 22500 * time.Nanosecond},
		"one that takes longer":       {60 * time.Microsecond, 10, true, false, 67500 * time.Nanosecond},
		"one that reads much at once": {60 * time.Microsecond, 300, true, false, 67500 * time.Nanosecond},
		"a slow one":                  {400 * time.Microsecond, 10, true, false, maxThrottle * 9 / 8},
		"a slow one of JSON":          {400 * time.Microsecond, 10, true, true, 450 * time.Microsecond},
		"a slower one of JSON":        {2 * time.Millisecond, 10, true, true, maxThrottleJSON * 9 / 8},
		// the handler reads nothing while the test measures
		"one that waits for something": {20 * time.Millisecond, 100, true, false, 0},
		"one that keeps up":            {60 * time.Microsecond, 10, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				p := newPacing(t, ctx)
				defer p.s.Close()
				if test.json {
					p.encoding = wire.JSON
				}
				c := p.s.Cursor()
				defer c.Close()
				check.Equal(t, p.took(), 0, "the first events waited")
				if test.behind {
					p.change(1 << 14) // more than the handler reads in this test
				}
				defer p.handle(c, test.per, test.batch)()
				// After twenty calls, the average is close to the handler's time, and the first sample no
				// longer matters.
				for begin, n := time.Now(), 0; n < 20 || time.Since(begin) < 60*time.Millisecond; n++ {
					time.Sleep(time.Millisecond) // the time to read a batch
					p.took()
				}
				// Measure over ten of the largest batches, because the order of two timers that end at the same
				// moment is random.
				begin, n := time.Now(), 0
				for ; n < 10 || time.Since(begin) < 180*time.Millisecond; n++ {
					time.Sleep(time.Millisecond)
					p.took()
				}
				got, least := time.Since(begin)/time.Duration(n*maxBatch), time.Millisecond/maxBatch
				if want := max(test.want, least); got < want*8/10 || got > want*12/10 {
					t.Errorf("an event took %v, want %v", got, want)
				}
				if cancel(); p.took() != 0 {
					t.Error("waited longer than the reflector runs")
				}
			})
		})
	}
}

// TestThrottleOfTwo checks that the throttle uses the average time of two handlers if both are
// behind.
func TestThrottleOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacing(t, t.Context())
		defer p.s.Close()
		a, b := p.s.Cursor(), p.s.Cursor()
		defer a.Close()
		defer b.Close()
		p.took()
		p.change(1 << 14) // more than both handlers read in this test
		defer p.handle(a, 100*time.Microsecond, 10)()
		defer p.handle(b, 25*time.Microsecond, 10)()
		for range 25 {
			time.Sleep(time.Millisecond)
			p.took()
		}
		time.Sleep(time.Millisecond)
		if n := p.took() + time.Millisecond; n < maxBatch*35*time.Microsecond || n > maxBatch*55*time.Microsecond {
			t.Errorf("%v for %d events of handlers that take 25 and 100 µs", n, maxBatch)
		}
	})
}

// TestPaceOfLargeLists counts the lists of a large resource in a quarter of an hour, while each
// watch fails in a way that makes a list necessary. Except for the first lists, the average time
// between two lists must be at least half of the longest wait.
func TestPaceOfLargeLists(t *testing.T) {
	const lasted = 15 * time.Minute
	failed := func(what string) []input {
		return []input{{typ: inFailed, err: classify(Watching, failure(what)), after: time.Second}}
	}
	for name, watch := range map[string][]input{
		"expired":     failed("http-410"),
		"forbidden":   failed("http-403"),
		"not found":   failed("http-404"),
		"not allowed": failed("http-405"),
		"rejected":    failed("http-422"),
		"unreadable":  {{typ: inOpened}, {typ: inEvents, rv: "1001", damaged: 1, after: time.Second}},
	} {
		for _, mode := range []Mode{List, Pages, WatchList} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				cfg := Config{Mode: mode}.withDefaults()
				lists := countLists(t, newState(&cfg, ""), watch, lasted)
				if most := int(lasted/(cfg.Backoff.Max/2)) + 25; lists > most || lists <= 15 {
					t.Errorf("%d lists, want 16 to %d", lists, most)
				}
			})
		}
	}
}

// neverWatched reports whether a server that answers a WATCH with err gives the same answer to a
// WATCH with initial events.
func neverWatched(err *Error) bool {
	return err.Sentinel == ErrUnknownResource || err.Sentinel == ErrForbidden
}

// countLists runs step for a certain time (lasted), and returns the number of lists. The inputs in
// watch follow each WATCH, and each list has 100,000 objects.
func countLists(t *testing.T, s state, watch []input, lasted time.Duration) (lists int) {
	t.Helper()
	return countListsOf(t, s, watch, lasted, 100_000)
}

// countListsOf does what countLists does, for lists of the given size. A list of more than one
// object takes a second.
func countListsOf(t *testing.T, s state, watch []input, lasted time.Duration, size int64) (lists int) {
	t.Helper()
	took := min(time.Duration(size-1)*time.Second, time.Second)
	listed := []input{{typ: inOpened, rv: "1000"}, {typ: inPage, rv: "1000", size: size, after: took}}
	inputs := []input{{typ: inBegin}}
	for passed := time.Duration(0); passed < lasted; {
		in := inputs[0]
		inputs, in.jitter = inputs[1:], 0.5
		passed += in.after
		before := s
		var actions []action
		s, actions = step(s, in)
		check.NoError(t, checkStep(before, s, in, actions))
		for _, act := range actions {
			switch act := act.(type) {
			case wait:
				passed += act.d
				inputs = []input{{typ: inWoke}}
			case openList:
				lists++
				inputs = listed
			case askNewest:
				inputs = []input{{typ: inNewest, rv: "1000"}}
			case openWatch:
				inputs = watch
				if refused := len(watch) == 1; act.initial && !(refused && neverWatched(watch[0].err)) {
					lists++
					inputs = []input{{typ: inOpened}, {typ: inBookmark, rv: "1000", final: true, size: size, after: took}}
					inputs = append(inputs, watch[len(watch)-1])
				}
			}
		}
	}
	return lists
}

// TestPaceOfRefusedVerb counts the lists of a small resource whose WATCHes get a 405 or a 404.
// client-go's backoff leads to 6 lists in the first minute and 80 in an hour. The reason of a 404
// may end soon, so eight more lists are allowed.
func TestPaceOfRefusedVerb(t *testing.T) {
	for what, most := range map[string][2]int{"http-405": {6, 90}, "http-404": {6 + maxRefused, 90 + maxRefused}} {
		watch := []input{{typ: inFailed, err: classify(Watching, failure(what))}}
		for i, lasted := range []time.Duration{time.Minute, time.Hour} {
			cfg := Config{Mode: List}.withDefaults()
			if lists := countListsOf(t, newState(&cfg, ""), watch, lasted, 1); lists > most[i] {
				t.Errorf("%s: %d lists in %v, want no more than %d", what, lists, lasted, most[i])
			}
		}
	}
}

// TestBackoffAttempt checks the waits for different errors, numbers of failures and requests.
func TestBackoffAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		sentinel    error
		request     request
		answered    bool
		forcedLists int
		size        int64
		want        map[int]time.Duration // the waits by attempt
	}{
		"a server that does not like it": {ErrRejected, reqWatch, false, 0, 0, map[int]time.Duration{
			0: 600 * time.Millisecond, 1: 600 * time.Millisecond, 2: 1200 * time.Millisecond, 3: 2400 * time.Millisecond, 7: 22500 * time.Millisecond}},
		"a server that fails at once":        {ErrServer, reqList, false, 0, 0, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"a server that fails after a second": {ErrServer, reqList, false, 0, 0, map[int]time.Duration{7: 22500 * time.Millisecond}},
		"no server": {ErrUnreachable, reqWatch, false, 1, 0, map[int]time.Duration{
			0: 600 * time.Millisecond, 1: 600 * time.Millisecond, 2: 1200 * time.Millisecond, 3: 1200 * time.Millisecond,
			maxCheapFailures + 2: 1200 * time.Millisecond, maxCheapFailures + 3: 2400 * time.Millisecond, maxCheapFailures + 7: 22500 * time.Millisecond}},
		"a watch that breaks off":         {ErrUnreachable, reqWatch, true, 0, 0, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"a list without an answer":        {ErrUnreachable, reqList, false, 0, 0, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"a list that breaks off":          {ErrUnreachable, reqList, true, 0, 0, map[int]time.Duration{7: 22500 * time.Millisecond}},
		"small lists for want of a watch": {ErrUnreachable, reqWatch, false, maxCheapLists + 2, 1600, map[int]time.Duration{7: 1200 * time.Millisecond}},
		"larger ones":                     {ErrUnreachable, reqWatch, false, 3, 1601, map[int]time.Duration{7: 22500 * time.Millisecond}},
		"many of them":                    {ErrUnreachable, reqWatch, false, maxCheapLists + 3, 1600, map[int]time.Duration{7: 22500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{}.withDefaults()
			for attempt, want := range test.want {
				m := machine{state: newState(&cfg, "1"), in: input{answered: test.answered, jitter: 0.5}}
				if strings.Contains(name, "after a second") {
					m.in.after = time.Second
				}
				m.request, m.attempt, m.forcedLists, m.size = test.request, attempt, test.forcedLists, test.size
				m.sleep(reqWatch, test.sentinel)
				check.Equal(t, m.actions[0].(wait).d, want, "attempt %d waits", attempt)
			}
		})
	}
}

// TestSizeOf checks for how many small objects one object of a given size counts.
func TestSizeOf(t *testing.T) {
	for bytes, want := range map[int]int64{0: 1, 2 << 10: 1, 8 << 10: 2, 1 << 20: 129} {
		check.Equal(t, sizeOf(source.Object{Raw: make([]byte, bytes)}), want, "%d bytes count for objects", bytes)
	}
}

// slow is a source that responds to a probe after a certain time (takes).
type slow struct {
	tape
	takes time.Duration
}

func (s *slow) NewestVersion(ctx context.Context, _ metav1.ListOptions) (string, error) {
	select {
	case <-time.After(s.takes):
		return "7", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// TestProbeLimit checks the limit of probes with a server that responds later than the initial
// limit. The limit must grow until a probe gets a response. The test also checks how lists change
// the limit.
func TestProbeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &slow{takes: 29 * time.Second}
		r := &Reflector{src: source}
		ask := func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			_, err := r.newestVersion(ctx, askNewest{})
			return time.Since(began), err
		}
		for _, want := range []struct {
			waits time.Duration
			err   error
		}{{10 * time.Second, context.DeadlineExceeded}, {20 * time.Second, context.DeadlineExceeded}, {29 * time.Second, nil}, {29 * time.Second, nil}} {
			if waited, err := ask(t.Context()); waited != want.waits || !errors.Is(err, want.err) {
				t.Errorf("waited %v: %v, want %v: %v", waited, err, want.waits, want.err)
			}
		}
		// The end of the caller's context says nothing about the server, so the limit stays the same.
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if waited, err := ask(ended); waited != time.Second || err == nil {
			t.Errorf("waited %v: %v", waited, err)
		}
		source.takes = time.Hour
		for _, want := range []time.Duration{58, 60, 60} {
			if waited, err := ask(t.Context()); waited != want*time.Second || err == nil {
				t.Errorf("waited %v: %v, want %d s", waited, err, want)
			}
		}
		// If a list starts fast, only probes are slow. If a list starts slowly, all requests are slow.
		for _, listed := range []struct{ took, limit time.Duration }{{time.Second, 10 * time.Second}, {25 * time.Second, 50 * time.Second}, {time.Hour, time.Minute}} {
			r.probeLimit.listed(listed.took)
			if waited, _ := ask(t.Context()); waited != listed.limit {
				t.Errorf("after a list that took %v: waited %v, want %v", listed.took, waited, listed.limit)
			}
		}
	})
}
