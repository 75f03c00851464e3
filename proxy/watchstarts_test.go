package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// TestWatchStarts checks that the number of WATCHes to which the proxy sends the initial state at
// the same time is bounded. One caller may have fewer than half of them, and some are reserved for
// the control plane. WATCHes that resume do not count.
func TestWatchStarts(t *testing.T) {
	wait := timing(func(w *timeouts) { w.start = time.Nanosecond })
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: wait})
	const watch = "/api/v1/pods?watch=true&timeoutSeconds=1"
	in := tp.server.seats.Starts
	try := func(who, how string, want int) {
		t.Helper()
		if code, body := tp.get(who, watch+how); code != want {
			t.Errorf("%s, %q: %d %.200s", who, how, code, body)
		}
	}
	const initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"
	all := in.Room(seats.Everyone)
	for range all / 2 {
		if !in.Acquire(tp.ctx, seats.Flow{Level: seats.Everyone, Caller: "user jane"}) {
			t.Fatal("jane has less than half")
		}
	}
	for _, how := range []string{"&resourceVersion=0", initial} {
		try("jane", how, http.StatusTooManyRequests)
		try("john", how, http.StatusOK)
	}
	try("jane", "&resourceVersion="+tp.resource("pods").Serving().Store().ResourceVersion(), http.StatusOK)
	for i := range all - all/2 {
		in.Acquire(tp.ctx, seats.Flow{Level: seats.Everyone, Caller: fmt.Sprint("user jack ", i/2)})
	}
	try("john", initial, http.StatusTooManyRequests)
	try(scheduler, initial, http.StatusOK)
	in.Release(seats.Flow{Level: seats.Everyone, Caller: "user jane"})
	try("jane", initial, http.StatusOK)
	if taken, waiting := in.Counts(); taken[seats.Everyone] != all-1 || taken[seats.System] != 0 || waiting != [seats.Levels]int{} {
		t.Errorf("%v have seats, %v wait", taken, waiting)
	}
}

// TestWatchStartsEnd checks that a WATCH counts as starting only until the client has received the
// initial state. If the client does not read the state, the WATCH counts for a limited time.
func TestWatchStartsEnd(t *testing.T) {
	for name, hold := range map[string]time.Duration{"taken": deadline, "not taken": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			wait := timing(func(w *timeouts) { w.hold = hold })
			_, tp := startReady(t, apiserver.Options{Pods: 300}, Options{Resources: []string{"pods"}, timeouts: wait})
			ctx, cancel := context.WithCancel(tp.ctx)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=0", nil)
			r.Header.Set("Authorization", "Bearer token-jane")
			writing, release := make(chan struct{}), make(chan struct{})
			w := &brokenWriter{httptest.NewRecorder(), 0, func(n int) error {
				if n == 0 {
					close(writing)
					<-release
				}
				return nil
			}}
			done := make(chan struct{})
			go func() {
				defer close(done)
				tp.server.ServeHTTP(w, r)
			}()
			<-writing
			seats := func() int {
				taken, _ := tp.server.seats.Starts.Counts()
				return taken[seats.Everyone]
			}
			if hold == deadline && seats() != 1 {
				t.Errorf("it has %d seats while it is sent the state", seats())
			}
			if hold == deadline {
				close(release)
			}
			tp.until("it has no seat", func() bool { return seats() == 0 })
			check.Equal(t, tp.server.seats.Watches.Count(), 1, "watches")
			if hold != deadline {
				close(release)
			}
			cancel()
			<-done
			check.Equal(t, seats(), 0, "seats are left")
		})
	}
}
