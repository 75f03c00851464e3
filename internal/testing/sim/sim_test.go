package sim

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/testenv"
)

var (
	seedFlag    = flag.Int64("seed", -1, "replay the world of this seed, with a log")
	seedsFlag   = flag.Uint64("seeds", defaultSeeds(), "how many seeds to run")
	fromFlag    = flag.Uint64("from", 1, "the first of them")
	explainFlag = flag.Int("explain", 1, "how many failures of a kind to shrink and show")
	shrinkFlag  = flag.Duration("shrink", 20*time.Second, "how long to shrink one")
	rawFlag     = flag.Bool("raw", false, "with -seed: show the world as it was drawn as well")
	runnerFlag  = flag.String("runner", "", "leave out worlds that run anything else")
	withoutFlag = flag.String("without", "", "leave out worlds with such a step: restore, schema, …")
	ignoreFlag  = flag.String("ignore", "", `do not count violations of these kinds: a regular expression for "rule (runner)"`)
	firstFlag   = flag.Bool("first", false, "end with the first seed that fails")
	forFlag     = flag.Duration("for", 0, "go on with new seeds for so long")
)

// defaultSeeds returns the number of seeds to run. It is lower with the race detector, because each
// seed then takes ten times as long.
func defaultSeeds() uint64 {
	if testenv.Race {
		return 100
	}
	return 500
}

func TestSim(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if *seedFlag >= 0 {
		replay(t, uint64(*seedFlag))
		return
	}
	began, reported := time.Now(), time.Now()
	n, failures := uint64(0), 0
	explained := map[string]int{}
	knownFailures := map[string]int{}
	var ended, lasting []time.Duration
	for ; *forFlag > 0 && time.Since(began) < *forFlag || *forFlag == 0 && n < *seedsFlag; n++ {
		seed := *fromFlag + n
		if !wanted(Draw(seed)) {
			continue
		}
		out := executeSeed(t, [2]uint64{seed, seed})
		if w := Draw(seed); w.lasting() {
			lasting = append(lasting, out.Rest)
		} else {
			ended = append(ended, out.Rest)
		}
		if len(out.Violations) > 0 && ignored(out.Violations[0]) {
			continue
		}
		if len(out.Violations) > 0 && out.Violations[0].KnownFailure() {
			knownFailures[out.Violations[0].Rule]++
		} else if len(out.Violations) > 0 {
			failures++
			v := out.Violations[0]
			t.Errorf("seed %d: %v", seed, v)
			if *forFlag > 0 {
				fmt.Fprintf(os.Stderr, "seed %d: %v\n", seed, v)
			}
			if *firstFlag {
				t.Logf("%d seeds until then", n+1)
				return
			}
			if explained[v.Rule+v.Runner]++; explained[v.Rule+v.Runner] <= *explainFlag {
				explain(t, seed, v)
			}
		}
		if *forFlag > 0 && time.Since(reported) > 10*time.Second {
			reported = time.Now()
			fmt.Fprintf(os.Stderr, "%d seeds, up to %d, %d failed, %.0f a second\n", n+1, seed, failures, float64(n+1)/time.Since(began).Seconds())
		}
	}
	t.Logf("client-go fails as it is known to: %v", knownFailures)
	t.Logf("at rest after %v where faults ended, %v where some stay", quantiles(ended), quantiles(lasting))
	t.Logf("%d seeds, %d failed, %.0f a second", n, failures, float64(n)/time.Since(began).Seconds())
}

// quantiles returns the median, the 90th and 99th percentiles, and the maximum of d. It sorts d.
func quantiles(d []time.Duration) []time.Duration {
	if len(d) == 0 {
		return nil
	}
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(100 * time.Millisecond) }
	return []time.Duration{at(0.5), at(0.9), at(0.99), at(1)}
}

// wanted reports whether the flags select a world. They select by the runner of the first client
// and by the steps.
func wanted(w *World) bool {
	return (*runnerFlag == "" || w.Clients[0].Runner == *runnerFlag) &&
		!slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op.String() == *withoutFlag })
}

// ignored reports whether the flags exclude a violation.
func ignored(v Violation) bool {
	if *ignoreFlag == "" {
		return false
	}
	return regexp.MustCompile(*ignoreFlag).MatchString(v.Rule + " (" + v.Runner + ")")
}

// executeSeed runs the world of a seed. The stack trace of a crash shows the seed in hexadecimal,
// because arrays are not passed in registers.
//
//go:noinline
func executeSeed(t *testing.T, seed [2]uint64) *Outcome {
	done := make(chan struct{})
	defer close(done)
	go panicIfLong(seed[0], done)
	return execute(t, Draw(seed[0]), false)
}

// panicIfLong ends the process if a seed runs for two minutes of real time: then a goroutine does
// not stop running. It counts ticks and does not read the clock, so that it does not count time in
// which the process is suspended.
func panicIfLong(seed uint64, done <-chan struct{}) {
	const tick, most = 10 * time.Second, 12
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for range most {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
	panic(fmt.Sprintf("seed %d: has run for %v and goes on", seed, most*tick))
}

// replay runs the world of a seed until it fails, at most 50 times, because the seed does not
// determine all of a run.
func replay(t *testing.T, seed uint64) {
	w := Draw(seed)
	out := failing(t, w, Violation{}, 50)
	if len(out.Violations) == 0 {
		t.Logf("seed %d does not fail\n%v\n%s", seed, w, out.Log)
		return
	}
	explain(t, seed, out.Violations[0])
	if *rawFlag {
		t.Errorf("seed %d: %v\nas drawn: the %v\n%s", seed, out.Violations, w, out.Log)
	}
}

// failing runs a world with a log, at most tries times, until a run violates the rule as.Rule, or
// any rule if as.Rule is empty. It returns the outcome of the last run.
func failing(t *testing.T, w *World, as Violation, tries int) *Outcome {
	for {
		out := execute(t, w, true)
		tries--
		if tries == 0 || slices.ContainsFunc(out.Violations, func(v Violation) bool { return as.Rule == "" || v.Rule == as.Rule }) {
			return out
		}
	}
}

// explain shrinks the world of a seed that failed, and prints the smaller world with its log.
func explain(t *testing.T, seed uint64, v Violation) {
	w := shrink(t, Draw(seed), v, *shrinkFlag)
	out := failing(t, w, v, 50)
	t.Errorf("seed %d: %v\nshrunk to the %v\n%s", seed, out.Violations, w, out.Log)
}
