package feed

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// coalesced simulates an upstream that is itself a cache. The upstream announces that it coalesces
// the changes up to 12, and sends one of them, at rv.
func (s *testFeed) coalesced(rv int) {
	s.t.Helper()
	s.Coalesced("12")
	check.NoError(s.t, s.put(wire.Modified, "a", rv, 0))
}

// settled makes the upstream send the bookmark that ends the coalesced changes.
func (s *testFeed) settled() {
	s.Coalesced("")
	s.Progress("12")
}

// TestCoalescedUpstream checks that a client can resume from the end of the changes that the
// upstream coalesces, and not from the middle.
func TestCoalescedUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestFeed(t, 0)
		s.coalesced(11)
		s.prove(10) // must have no effect: the proof is from another replica of the upstream
		s.settled()
		for at, want := range map[uint64][]string{12: nil, 10: {"ERROR 410"}, 5: {"MODIFIED u-a@11"}} {
			if got := s.watch(at); !slices.Equal(got, want) {
				t.Errorf("from %d: %v, want %v", at, got, want)
			}
		}
	})
}

// TestCoalescedEnds checks that a watch receives a bookmark when the upstream has sent all
// coalesced changes, even if the upstream needs longer than a bookmark interval for them. After
// that, the watch must receive periodic bookmarks again. No other change follows.
func TestCoalescedEnds(t *testing.T) {
	for _, tt := range []struct {
		open, rest time.Duration
		bookmarks  int
	}{{time.Second, 2 * time.Second, 2}, {90 * time.Second, 2 * time.Second, 2}, {90 * time.Second, 2 * time.Minute, 3}} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestFeed(t, 0)
				ctx, cancel := context.WithCancel(context.Background())
				w, done := httptest.NewRecorder(), make(chan struct{})
				go func() {
					defer close(done)
					serveFrom(s.cache, w, httptest.NewRequest("GET", "/api/v1/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=1000&resourceVersion=5", nil).WithContext(ctx))
				}()
				synctest.Wait()
				s.coalesced(10)
				time.Sleep(tt.open)
				s.settled()
				time.Sleep(tt.rest)
				cancel()
				<-done
				if n := strings.Count(w.Body.String(), "BOOKMARK"); n < tt.bookmarks || !strings.Contains(w.Body.String(), `"resourceVersion":"12"`) {
					t.Errorf("%d bookmarks: %s", n, w.Body)
				}
			})
		})
	}
}
