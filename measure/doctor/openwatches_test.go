package doctor

import (
	"fmt"
	"testing"
	"time"
)

// TestRestartAfterKills: a WATCH that a killed server cut off has no end in the log. It is not
// taken to go on beyond what it asked for, or what the server lets any last.
func TestRestartAfterKills(t *testing.T) {
	for _, timeout := range []string{"", "&timeoutSeconds=420"} {
		w := newWorld(1)
		for _, at := range []time.Duration{0, 2 * time.Hour, 4 * time.Hour} {
			for i := range 40 {
				r := someone("agent", "watch", "pods")
				r.at, r.ip, r.query, r.open = at, fmt.Sprint("10.7.0.", i), "resourceVersion=7&watch=true"+timeout, true
				w.do(r)
			}
			w.each(10, time.Minute, request{at: at, user: "other", agent: program("other"), verb: "get", resource: "pods"}, nil)
		}
		got := examine(t, plainly(), w.log())
		if got.Restart == nil || got.Restart.Killers != 40 || got.Totals.Watches != 40 {
			t.Errorf("%q: %+v, %+v", timeout, got.Totals, got.Restart)
		}
	}
}

// TestLongWatches: where a WATCH has lasted for longer than an hour others may as well.
func TestLongWatches(t *testing.T) {
	w := newWorld(1)
	for i := range 40 {
		r := someone("agent", "watch", "pods")
		r.ip, r.query, r.open = fmt.Sprint("10.7.0.", i), "resourceVersion=7&watch=true", true
		w.do(r)
	}
	r := someone("other", "watch", "pods")
	r.query, r.took = "resourceVersion=7&watch=true", 90*time.Minute
	w.do(r)
	w.each(10, 10*time.Minute, request{user: "other", agent: program("other"), verb: "get", resource: "pods"}, nil)
	if got := examine(t, plainly(), w.log()); got.Totals.Watches != 41 {
		t.Errorf("%+v", got.Totals)
	}
}
