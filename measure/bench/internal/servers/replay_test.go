package servers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// TestInitialEventsAgainAndAgain checks that the server closes the WATCH of a client that is slower
// than the changes, and that the client starts again.
func TestInitialEventsAgainAndAgain(t *testing.T) {
	const pods, buffer, restarts = 3000, 20, 2
	r := InitialEvents()
	r.prepare = func(o *Options) { o.watchBuffer = buffer }
	r.Ways = r.Ways[:1]
	o := tiny("", pods)
	// The client would read all initial events in ten seconds, but before that the changes fill the
	// WATCH's buffer.
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

// TestSlowListsAreCutOff checks that the readers are disconnected when the server's memory exceeds
// the limit.
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
				figures.Check(broken)
			}
			return Figures{}
		}}}}
		err := r.Run(t.Context(), tiny("", 10), func(figures.Traced) { t.Error("there is a result") })
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// TestResyncBeforeTheStormBegins checks a resync that happens before the measurement starts. The
// pods of this resync must cause no requests and must not count.
func TestResyncBeforeTheStormBegins(t *testing.T) {
	r := &resyncing{begun: make(chan struct{}), groups: make(chan string, 1), ended: make(chan struct{})}
	r.handle(t.Context(), "early")
	if n := len(r.groups); n != 0 {
		t.Errorf("%d groups are handed out before it begins", n)
	}
	close(r.begun)
	r.handle(t.Context(), "in time")
	if n := len(r.groups); n != 1 {
		t.Errorf("%d groups are handed out behind that", n)
	}
}

// atOnce runs allAtOnce with clients that call ask. It returns the figures, the progress output and
// the error.
func atOnce(t *testing.T, patience time.Duration, clients int, ask func(ctx context.Context, i int) error) (Figures, string, error) {
	t.Helper()
	var said strings.Builder
	tr := &trial{
		target:  &target{name: nameAPIServer, config: &rest.Config{Host: "http://127.0.0.1:1"}},
		Options: Options{Patience: patience, Progress: &said},
	}
	var f Figures
	err := figures.Attempt(func() {
		f = tr.allAtOnce(t.Context(), clients, func(ctx context.Context, _ *client, i int) error { return ask(ctx, i) })
	})
	return f, said.String(), err
}

var errBusy = errors.New("busy")

func TestSimultaneousClientsRetry(t *testing.T) {
	var once [3]sync.Once
	f, said, err := atOnce(t, time.Hour, len(once), func(_ context.Context, i int) (err error) {
		once[i].Do(func() { err = errBusy })
		return err
	})
	if _, ok := f["upSeconds"]; !ok || err != nil || f["up"] != 3 || f["failed"] != 3 || said != "" {
		t.Errorf("%v, %q, %v", f, said, err)
	}
}

func TestPatienceAtAnEnd(t *testing.T) {
	never := func(ctx context.Context, i int) error {
		if i == 0 {
			return nil
		}
		<-ctx.Done()
		return errBusy
	}
	f, said, err := atOnce(t, 50*time.Millisecond, 3, never)
	if _, ok := f["upSeconds"]; ok || err != nil || f["up"] != 1 || !strings.Contains(said, "2 of 3 clients received nothing") || !strings.Contains(said, "busy") {
		t.Errorf("%v, %q, %v", f, said, err)
	}
	if _, _, err := atOnce(t, 50*time.Millisecond, 2, func(ctx context.Context, _ int) error { return never(ctx, 1) }); !errors.Is(err, errBusy) {
		t.Errorf("no client got anything: %v", err)
	}
}
