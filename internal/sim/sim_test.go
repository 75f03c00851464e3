package sim

import (
	"flag"
	"runtime"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Int64("seed", -1, "replay the world of this seed, with a log")
	seedsFlag = flag.Uint64("seeds", 500, "how many seeds to run")
	fromFlag  = flag.Uint64("from", 1, "the first of them")
	forFlag   = flag.Duration("for", 0, "go on with new seeds for so long")
)

func TestSim(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if *seedFlag >= 0 {
		replay(t, uint64(*seedFlag))
		return
	}
	began := time.Now()
	n := uint64(0)
	failures := 0
	for ; *forFlag > 0 && time.Since(began) < *forFlag || *forFlag == 0 && n < *seedsFlag; n++ {
		out := Execute(t, Draw(*fromFlag+n), false)
		if len(out.Violations) > 0 {
			failures++
			t.Errorf("seed %d: %v", *fromFlag+n, out.Violations[0])
		}
	}
	t.Logf("%d seeds, %d failed, %.0f a second", n, failures, float64(n)/time.Since(began).Seconds())
}

func replay(t *testing.T, seed uint64) {
	w := Draw(seed)
	out := Execute(t, w, true)
	t.Logf("%v\n%s", w, out.Log)
	for _, v := range out.Violations {
		t.Errorf("seed %d: %v", seed, v)
	}
}
