package servers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/attempt"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// TestInitialEventsAgainAndAgain: a client that is slower than the changes is cut off, and begins
// again.
func TestInitialEventsAgainAndAgain(t *testing.T) {
	const pods, buffer, restarts = 3000, 20, 2
	r := InitialEvents()
	r.prepare = func(o *Options) { o.watchBuffer = buffer }
	r.Ways = r.Ways[:1]
	o := tiny("", pods)
	// Ten seconds' worth: two changes a second fill the buffer before.
	o.ReadRate, o.Duration, o.restarts = 300, 5*time.Minute, restarts
	ways := 0
	err := r.Run(t.Context(), o, func(got figures.Traced) {
		f := got.Figures
		ways++
		if f["restarts"] != restarts || f["through"] != 0 || f["received"] < 1 || f["requests"] != restarts {
			t.Errorf("%s: %v", got.Label, f)
		}
		if n := len(got.Trace.Events); n == 0 || got.Trace.Events[n-1] >= pods {
			t.Errorf("%s: the last of %d samples is of the whole state", got.Label, n)
		}
	})
	if err != nil || ways != 1 {
		t.Errorf("%d ways, %v", ways, err)
	}
}

// TestSlowListsAreCutOff: where a server grows beyond the limit, its readers are let go.
func TestSlowListsAreCutOff(t *testing.T) {
	r := ConcurrentLists()
	r.Ways = r.Ways[:1]
	o := tiny("", 500)
	o.SlowBytes, o.RSSLimit = 1, 1 // a LIST would take a month
	err := r.Run(t.Context(), o, func(got figures.Traced) {
		f := got.Figures
		if readers := float64(o.SlowProtobuf + o.SlowJSON); f["broken"] != readers || f["readers"] != readers {
			t.Errorf("%v", f)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLoadThatDoesNotBegin(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{errNotBegun, broken} {
		r := Replay{Every: time.Millisecond, Ways: []Way{{Label: "idle", load: func(context.Context, *trial, func()) Figures {
			if want == broken {
				attempt.Check(broken)
			}
			return Figures{}
		}}}}
		err := r.Run(t.Context(), tiny("", 10), func(figures.Traced) { t.Error("there is a result") })
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
