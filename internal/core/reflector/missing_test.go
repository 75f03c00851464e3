package reflector

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/store"
)

// TestServedAgain checks a server that does not serve the resource for a while, as if a version of
// a custom resource was disabled and enabled again. The store must be current within 2 s after the
// resource is served again, even if one of the first requests then fails.
func TestServedAgain(t *testing.T) {
	const soon = 2 * time.Second
	// Each function returns the response to the n-th request after the resource is served again, or
	// nil for the usual response.
	after := map[string]func(h *harness, n int) http.HandlerFunc{
		"well": func(*harness, int) http.HandlerFunc { return nil },
		"storage initializing": func(_ *harness, n int) http.HandlerFunc {
			if n == 1 {
				return deny(429, "1")
			}
			return nil
		},
		"failing once": func(_ *harness, n int) http.HandlerFunc {
			if n == 1 {
				return deny(500, "")
			}
			return nil
		},
		"broken off once": func(_ *harness, n int) http.HandlerFunc {
			if n == 1 {
				return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
			}
			return nil
		},
		"other server later": func(_ *harness, n int) http.HandlerFunc {
			if n == 2 {
				return deny(404, "")
			}
			return nil
		},
	}
	for name, instead := range after {
		for _, mode := range []Mode{List, Pages, WatchList} {
			for _, jitter := range []float64{0, 0.5, 0.999} {
				for _, outage := range []time.Duration{time.Second, 7 * time.Second, 30 * time.Second} {
					t.Run(fmt.Sprintf("%s/%s/%v/%v", name, mode, jitter, outage), func(t *testing.T) {
						withHarness(t, Config{Mode: mode}, func(h *harness) { h.servedAgain(outage, jitter, instead, soon) })
					})
				}
			}
		}
	}
}

// servedAgain makes the resource unavailable for a time (outage). When the resource is served
// again, the store must become current within another time (soon).
func (h *harness) servedAgain(outage time.Duration, jitter float64, instead func(h *harness, n int) http.HandlerFunc, soon time.Duration) {
	h.r.cfg.Backoff.Random = func() float64 { return jitter }
	begins, n, cut := time.Minute, 0, make(chan struct{})
	h.server = func(rw http.ResponseWriter, r *http.Request) {
		q, now := r.URL.Query(), time.Since(h.began)
		switch {
		case now >= begins && now < begins+outage:
			deny(404, "")(rw, r)
			return
		case now >= begins:
			if n++; instead(h, n) != nil {
				instead(h, n)(rw, r)
				return
			}
		}
		rv, pod, until := "100", "a@91", cut
		if now >= begins {
			rv, pod, until = "200", "a@191", nil
		}
		switch {
		case r.URL.Path == "/version":
			version("1.37")(rw, r)
		case q.Has("sendInitialEvents"):
			h.held(until, "+"+pod, "end@"+rv)(rw, r)
		case q.Has("watch"):
			h.held(until)(rw, r)
		default:
			h.list(rv, pod)(rw, r)
		}
	}
	h.run()
	h.advance(begins)
	close(cut)
	h.advance(outage + soon)
	h.wantObjects("a@191")
	if s := h.r.Status(); s.Phase != Watching {
		h.t.Errorf("%s; it asked for %s", s, h.asked())
	}
}

// asked returns the requests since the last call.
func (h *harness) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	requests := h.requests
	h.requests = nil
	return requests
}

// held returns a watch that sends events, and whose connection breaks when cut is closed.
func (h *harness) held(cut chan struct{}, events ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", watchContentType(h.enc))
		rw.WriteHeader(200)
		for _, e := range events {
			rw.Write(h.event(e))
		}
		rw.(http.Flusher).Flush()
		select {
		case <-cut:
		case <-r.Context().Done():
		}
	}
}

// TestMissingForLong checks the number of requests for a resource that remains unavailable: one to
// three per second at first, and at most 24 in a minute after two minutes.
func TestMissingForLong(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		for _, jitter := range []float64{0, 0.999} {
			withHarness(t, Config{Mode: mode}, func(h *harness) {
				h.r.cfg.Backoff.Random = func() float64 { return jitter }
				h.server = deny(404, "")
				if mode == List {
					h.run(h.list("100", "a@91"), deny(404, ""))
				} else {
					h.run(h.events("+a@91", "end@100", "EOF"))
				}
				h.advance(10 * time.Second)
				if n := len(h.asked()); n < 10 || n > 30 {
					t.Errorf("%d requests in 10 s", n)
				}
				if s := h.r.Status(); s.Attempts < 10 {
					t.Errorf("%s", s)
				}
				h.advance(2 * time.Minute)
				h.asked()
				h.advance(time.Minute)
				if n := len(h.asked()); n < 10 || n > 24 {
					t.Errorf("%d requests in a minute", n)
				}
			})
		}
	}
}

// TestNeverWatched checks the number of requests for a resource that the server allows to list, but
// not to watch. Status.Err must be ErrMethodNotAllowed all the time, although lists succeed.
func TestNeverWatched(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.server = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				deny(405, "")(rw, r)
				return
			}
			h.list("100", "a@91")(rw, r)
		}
		h.run()
		h.advance(time.Minute)
		h.asked()
		h.advance(time.Minute)
		if n := len(h.asked()); n < 2 || n > 4 {
			t.Errorf("%d requests in a minute", n)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		first := slices.IndexFunc(h.statuses, func(s Status) bool { return s.Err != nil })
		for _, s := range h.statuses[first:] {
			if !errors.Is(s.Err, ErrMethodNotAllowed) || !apierrors.IsMethodNotSupported(rootOf(s.Err)) {
				t.Errorf("%s", s)
			}
		}
	})
}

// TestExpiredAfterFailures checks a server that fails for a while, and then no longer has the
// changes since the store's version. The failures must not delay the list. After a list that did
// not help, the next one must be delayed.
func TestExpiredAfterFailures(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("100", "a@91"), deny(500, ""), deny(500, ""), h.events("error@410"), h.list("200", "a@191"),
			h.events("error@410"), h.list("300", "a@291"), h.events())
		h.advance(10 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "600ms WATCH resourceVersion=100", "1.8s WATCH resourceVersion=100",
			"1.8s LIST", "1.8s WATCH resourceVersion=200", "2.4s LIST", "2.4s WATCH resourceVersion=300")
	})
}

// TestCaughtUpAfterFailures checks the requests for a server that failed for a while, then was
// behind, and then caught up. The earlier failures must not delay the list.
func TestCaughtUpAfterFailures(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("100", "a@91"), deny(500, ""), deny(500, ""), tooLarge(), h.list("120/more", "a@91"), h.list("120", "a@111"), h.events())
		h.advance(15 * time.Second)
		h.wantObjects("a@111")
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "600ms WATCH resourceVersion=100", "1.8s WATCH resourceVersion=100",
			"2.85s LIST limit=1", "3.45s LIST", "3.45s WATCH resourceVersion=120")
	})
}

// beside creates another reflector that writes to the same store but reads from its own server.
func (h *harness) beside(owner uint8, cfg Config) *harness {
	other := &harness{t: h.t, enc: h.enc, server: hold, store: h.store, scope: store.Scope{Owner: owner}}
	other.serve(cfg)
	return other
}

// TestOutdated checks two reflectors of one store after the server was restored to version 60. One
// of them detects the restore because its connection breaks. The other one watches from a version
// that the server has reached a second time, and this watch remains open and silent. So only the
// first reflector can make the second one list and find that b was deleted.
func TestOutdated(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		t.Run(mode.String(), func(t *testing.T) {
			withHarness(t, Config{Mode: List}, func(h *harness) {
				other := h.beside(1, Config{Mode: mode})
				if mode == List {
					other.run(other.list("100", "b@92", "c@50"), other.events(), other.list("110", "c@50", "d@105"), other.events("~d@111"))
				} else {
					other.run(other.events("+b@92", "+c@50", "end@100"), other.list("110/more", "c@50"), other.events("+c@50", "+d@105", "end@110", "~d@111"))
				}
				defer other.stop()
				h.run(h.list("100", "a@91"), h.events("broken"), h.events(),
					h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"),
					h.list("60", "a@40"), h.events("bookmark@112"))
				h.advance(10 * time.Second)
				h.wantObjects("a@40 c@50 d@111")
				if mode == List {
					other.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "2.8s LIST", "2.8s WATCH resourceVersion=110")
				}
				other.wantReported(ErrWentBack)
				if s := other.r.Status(); s.Err != nil || s.Relists != 1 || s.ResourceVersion != "111" {
					t.Errorf("%s", s)
				}
			})
		})
	}
}

// TestOutdatedWhileWaiting checks a reflector that waits before its next watch while another
// reflector of the store finds a restore. The waiting reflector must then list instead of watching.
func TestOutdatedWhileWaiting(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.run(h.list("100", "b@92", "c@50"), deny(500, ""), h.list("110", "c@50"), h.events())
		other := h.store.Writer(store.Scope{Owner: 1})
		other.BeginReplace(true)
		other.EndReplace("60")
		h.advance(10 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "1.2s LIST", "1.2s WATCH resourceVersion=110")
		h.wantObjects("c@50")
	})
}
