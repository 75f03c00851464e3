package debug

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// reportAll returns the state of everything that runs, with all details.
func reportAll() report {
	t := &trends{byID: map[string]*trend{}}
	return t.report(time.Now(), func(string) bool { return true })
}

// refusing returns the configuration of a server that answers 403 to every request.
func refusing(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// TestReflectorProblems checks when a reflector needs attention, and that each error that a
// reflector reports has its own hint.
func TestReflectorProblems(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tt := range map[string]struct {
		s    reflector.Status
		want kind
	}{
		"healthy":          {reflector.Status{Phase: reflector.Watching, Since: ago(time.Hour), Heard: ago(time.Minute), Synced: true}, ""},
		"starting":         {reflector.Status{Phase: reflector.Starting}, ""},
		"begins to list":   {reflector.Status{Phase: reflector.Listing, Since: ago(time.Second)}, ""},
		"lists for long":   {reflector.Status{Phase: reflector.Listing, Since: ago(time.Hour), Heard: ago(time.Second)}, ""},
		"never heard":      {reflector.Status{Phase: reflector.Listing, Since: ago(2 * time.Minute)}, kindAge},
		"silent":           {reflector.Status{Phase: reflector.Watching, Heard: ago(4 * time.Minute), Synced: true}, kindAge},
		"silent and fails": {reflector.Status{Phase: reflector.Waiting, Heard: ago(4 * time.Minute), Err: &reflector.Error{Sentinel: reflector.ErrServer}}, kindError},
	} {
		got := ofReflector(now, tt.s)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[0].Kind != tt.want || got[0].Hint == "") {
			t.Errorf("%s: %+v, want %q", name, got, tt.want)
		}
	}
	seen := map[string]bool{}
	for _, err := range []error{
		weir.ErrForbidden, weir.ErrUnauthorized, weir.ErrUnknownResource, weir.ErrMethodNotAllowed, weir.ErrNoBookmark, weir.ErrExpired, weir.ErrServerBehind, weir.ErrNoContact,
		weir.ErrWentBack, weir.ErrMalformed, weir.ErrUnreachable, weir.ErrTooManyRequests, weir.ErrRejected, weir.ErrServer, weir.ErrWatchClosed, weir.ErrEncoding, errors.New("another"),
	} {
		text := hint(fmt.Errorf("pods: %w", &reflector.Error{Sentinel: err}))
		if seen[text] || text == "" {
			t.Errorf("%v has the hint %q, which another error has", err, text)
		}
		seen[text] = true
	}
}

// TestHandlerProblems checks when a handler needs attention.
func TestHandlerProblems(t *testing.T) {
	for name, tt := range map[string]struct {
		h        handlerState
		panicked bool
		want     []kind
	}{
		"idle":                      {handlerState{Events: 100, CallSeconds: 100}, false, nil},
		"catches up soon":           {handlerState{Events: 100, CallSeconds: 1, Lag: 2000}, false, nil},
		"needs minutes":             {handlerState{Events: 100, CallSeconds: 100, Lag: 60}, false, []kind{kindLag}},
		"stuck in the first call":   {handlerState{Events: 1, CallSeconds: 40, BusySeconds: 40, Key: "a", Lag: 1000}, false, []kind{kindStuck}},
		"stuck in a later call":     {handlerState{Events: 11, CallSeconds: 41, BusySeconds: 40, Key: "a", Lag: 100}, false, []kind{kindStuck}},
		"a long call":               {handlerState{Events: 1, CallSeconds: 20, BusySeconds: 20, Key: "a"}, false, nil},
		"panicked":                  {handlerState{Events: 10, CallSeconds: 1, Panics: 1}, true, []kind{kindPanic}},
		"stuck, slow, and panicked": {handlerState{Events: 3, CallSeconds: 60, BusySeconds: 50, Key: "a", Lag: 10, Panics: 1}, true, []kind{kindLag, kindStuck, kindPanic}},
	} {
		var got []kind
		for _, p := range ofHandler(tt.h, tt.panicked) {
			got = append(got, p.Kind)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestResourceProblems checks that a resource of a proxy needs attention if its configuration asks
// for a cache that does not exist.
func TestResourceProblems(t *testing.T) {
	for _, tt := range []struct {
		state      string
		configured bool
		want       bool
	}{
		{"current", true, false}, {"being read", true, false}, {"forbidden", true, true}, {"forbidden", false, false}, {"behind", false, true}, {"aggregated", true, true},
	} {
		if got := ofResource(registry.ProxyResource{State: tt.state, Configured: tt.configured}); (len(got) == 1) != tt.want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}

// TestOrder checks that the informers that need attention come first, in the order of the kinds of
// their problems, then the others by name. An open informer has details and others have none.
func TestOrder(t *testing.T) {
	l := newLooking(t)
	for _, name := range []string{"b", "a", "forbidden"} {
		config := l.config
		if name == "forbidden" {
			config = refusing(t)
		}
		inf, err := weir.NewInformer[*corev1.ConfigMap](config, weir.Options{Name: name})
		check.NoError(t, err)
		untilEnd(t, inf.Run, func(ctx context.Context) error {
			if name != "forbidden" {
				return inf.WaitForSync(ctx)
			}
			testenv.Eventually(t, ctx, "it is refused", func() bool { return errors.Is(inf.Err(), weir.ErrForbidden) })
			return nil
		})
	}
	past := &trends{byID: map[string]*trend{}}
	r := past.report(time.Now(), func(id string) bool { return id == "informer b" })
	var got []string
	for _, i := range r.Informers {
		got = append(got, i.Name+" "+i.Standing)
		if open := i.Name == "b"; (i.Reflectors != nil) != open || (i.Series != nil) != open {
			t.Errorf("%s is open: %t", i.Name, !open)
		}
	}
	if want := []string{"forbidden error", "a healthy", "b healthy"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p := r.Informers[0].Problems[0]; !strings.Contains(p.Text, "forbidden") || !strings.Contains(p.Hint, "kubectl auth can-i") {
		t.Errorf("%+v", p)
	}
}

// simulated is a running informer without a server. It runs until the test ends.
type simulated struct {
	t      *testing.T
	engine *engine.Engine
	writer *store.Writer
}

func simulate(t *testing.T, name string, handler delivery.Func) *simulated {
	t.Helper()
	e := engine.New(engine.Config{Name: name, Store: store.Config{Encoding: wire.Protobuf, Decode: func(raw []byte, _ *codec.Version) (any, error) {
		pod := &corev1.Pod{}
		return pod, pod.Unmarshal(raw)
	}}})
	if handler != nil {
		_, err := e.Handle(handler, delivery.Options{Name: "h"})
		check.NoError(t, err)
	}
	untilEnd(t, e.Run, func(context.Context) error { synctest.Wait(); return nil })
	return &simulated{t, e, e.Store().Writer(store.Scope{})}
}

// add adds a pod, and waits until the handler has received it or blocks.
func (s *simulated) add(name string) {
	s.t.Helper()
	raw, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, ResourceVersion: "1"}}).Marshal()
	check.NoError(s.t, err)
	var m wire.Meta
	check.NoError(s.t, wire.ReadMeta(wire.Protobuf, raw, &m))
	check.NoError(s.t, s.writer.Put(&m, raw))
	s.writer.Flush()
	synctest.Wait()
}

// TestStack checks that the report contains the stack of a handler that does not return, but not
// before the handler needs attention; and that the stacks do not stay in memory.
func TestStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := simulate(t, "pods", func(context.Context, store.Change) { waitForRelease(release) })
		s.add("a")
		if h := reportAll().Informers[0].Handlers[0]; h.Key != "d/a" || h.Stack != "" {
			t.Errorf("at first %+v", h)
		}
		time.Sleep(maxCall + time.Second)
		past := newTrends()
		i := past.report(time.Now(), func(string) bool { return true }).Informers[0]
		if i.Standing != string(kindStuck) || !strings.Contains(i.Handlers[0].Stack, "debug.waitForRelease\t") || !strings.Contains(i.Handlers[0].Stack, "report_test.go:") {
			t.Errorf("then %+v", i)
		}
		time.Sleep(2 * pointEvery)
		past.stacksMu.Lock()
		defer past.stacksMu.Unlock()
		if past.stacks != nil {
			t.Error("the stacks stay in memory")
		}
		close(release)
	})
}

func waitForRelease(release chan struct{}) { <-release }

// TestPanicPasses checks that a panic of a handler needs attention for panicsFor, also if it was
// before the page was first served, and that it is no problem of another handler.
func TestPanicPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panicAt := func(keys ...string) delivery.Func {
			return func(_ context.Context, c store.Change) {
				if slices.Contains(keys, c.Key()) {
					panic(c.Key())
				}
			}
		}
		s := simulate(t, "pods", panicAt("d/a", "d/b"))
		_, err := s.engine.Handle(panicAt("d/a"), delivery.Options{Name: "other"})
		check.NoError(t, err)
		expect := func(when, want string) {
			t.Helper()
			var got []string
			for _, p := range reportAll().Informers[0].Problems {
				got = append(got, fmt.Sprint(p.Kind, ": ", p.Text))
			}
			check.Equal(t, strings.Join(got, ", "), want, "%s", when)
		}
		s.add("a")
		expect("after a panic", "panicked: handler h has panicked; panics so far: 1, panicked: handler other has panicked; panics so far: 1")
		time.Sleep(panicsFor + time.Second)
		expect("long after the panic", "")
		s.add("b")
		expect("after another panic", "panicked: handler h has panicked; panics so far: 2")
	})
}

// TestOpenIsBounded checks that a stream ignores IDs above maxOpen.
func TestOpenIsBounded(t *testing.T) {
	url := mounted(t)
	for others, want := range map[int]bool{maxOpen - 1: true, maxOpen: false} {
		_, next, end := listen(t, url+"stream?"+strings.Repeat("open=x&", others)+"open=informer+secrets+%3Cb%3E")
		var r report
		next(&r)
		check.Equal(t, r.Informers[0].Reflectors != nil, want, "details after %d other IDs", others)
		end()
	}
}
