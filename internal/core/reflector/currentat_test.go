package reflector

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// after returns a handler that waits for d, and then responds like answer.
func after(d time.Duration, answer http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		answer(rw, r)
	}
}

// slowList returns a list whose last three tenths arrive d after the rest.
func (h *harness) slowList(d time.Duration, rv string, pods ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", contentType(h.enc))
		body := h.listBody(rv, pods...)
		begin := len(body) * 7 / 10
		rw.Write(body[:begin])
		rw.(http.Flusher).Flush()
		time.Sleep(d)
		rw.Write(body[begin:])
	}
}

// paced returns a watch that sends one event per second.
func (h *harness) paced(events ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", watchContentType(h.enc))
		rw.WriteHeader(http.StatusOK)
		for _, e := range events {
			rw.Write(h.event(e))
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
		}
		<-r.Context().Done()
	}
}

// TestCurrentAt checks that Status.CurrentAt is never newer than the store. It must not advance
// when only a part of a list has arrived, or after a probe or bookmark that does not show that the
// store is current.
func TestCurrentAt(t *testing.T) {
	const never = -1
	type moment struct{ at, current time.Duration }
	pods := []string{"a@20", "b@19", "c@18", "d@17"}
	for name, tt := range map[string]struct {
		cfg    Config
		script func(h *harness) []http.HandlerFunc
		want   []moment
	}{
		"first list": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{after(time.Second, h.slowList(5*time.Second, "20", pods...)), h.events()}
		}, []moment{{2 * time.Second, never}, {10 * time.Second, 0}}},
		"relist": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("error@410")), h.slowList(8*time.Second, "20", pods...), h.events()}
		}, []moment{{10 * time.Second, 0}, {20 * time.Second, 5 * time.Second}}},
		"relists that break off": {listed, func(h *harness) []http.HandlerFunc {
			broken := h.brokenList(7, "20", pods...)
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("error@410")), broken, broken, broken}
		}, []moment{{10 * time.Second, 0}, {30 * time.Second, 0}}},
		"pages": {Config{Mode: Pages}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("error@410")), h.list("20/more", "a@20"), after(5*time.Second, h.list("20", "b@19")), h.events()}
		}, []moment{{8 * time.Second, 0}, {20 * time.Second, 5 * time.Second}}},
		"initial events": {Config{Mode: WatchList}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.paced("+a@1", "+b@2", "end@10", "~a@11", "bookmark@12")}
		}, []moment{{1500 * time.Millisecond, never}, {2500 * time.Millisecond, 2 * time.Second}, {10 * time.Second, 4 * time.Second}}},
		"coalesced": {Config{Mode: WatchList}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.paced("+a@1", "end@10", "coalesced@11>15", "~a@13", "~a@16")}
		}, []moment{{3500 * time.Millisecond, time.Second}, {10 * time.Second, 4 * time.Second}}},
		"probe of a server that is ahead": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), h.list("15/more", "a@1"), h.events()}
		}, []moment{{100 * time.Second, 0}}},
		"probe that is refused": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), deny(http.StatusTooManyRequests, "1")}
		}, []moment{{100 * time.Second, 0}}},
		"bookmarks that repeat, of a server that is ahead": {listed, func(h *harness) []http.HandlerFunc {
			repeated := h.paced("~a@11", "bookmark@11", "bookmark@11", "bookmark@11")
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, repeated), h.list("15/more", "a@1")}
		}, []moment{{10 * time.Second, 5 * time.Second}, {100 * time.Second, 5 * time.Second}}},
		"bookmarks that repeat, and a probe that finds nothing new": {listed, func(h *harness) []http.HandlerFunc {
			repeated := h.paced("~a@11", "bookmark@11", "bookmark@11", "bookmark@11")
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, repeated), h.list("11/more", "a@1")}
		}, []moment{{10 * time.Second, 5 * time.Second}, {100 * time.Second, bookmarkPeriod + 5*time.Second}}},
		"list of a cache that may stand still": {Config{Mode: List, Consistency: Any}, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), after(5*time.Second, h.events("bookmark@12"))}
		}, []moment{{4 * time.Second, never}, {6 * time.Second, 5 * time.Second}}},
		"probe that finds nothing new": {listed, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), after(time.Second, h.list("10/more", "a@1"))}
		}, []moment{{100 * time.Second, bookmarkPeriod}}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, tt.cfg, func(h *harness) {
				h.run(tt.script(h)...)
				for _, m := range tt.want {
					h.advance(m.at - time.Since(h.began))
					s := h.r.Status()
					if got := s.CurrentAt.Sub(h.began); m.current == never && !s.CurrentAt.IsZero() || m.current != never && got != m.current || s.Heard.Before(s.CurrentAt) {
						t.Errorf("after %v: %v, want %v; heard at %v", m.at, got, m.current, s.Heard.Sub(h.began))
					}
				}
			})
		})
	}
}

// TestCoalesced checks that Status.ResourceVersion does not advance until the server has sent all
// coalesced changes.
func TestCoalesced(t *testing.T) {
	for name, tt := range map[string]struct {
		events []string
		at     string
	}{
		"before the end":       {[]string{"~a@101", "coalesced@101>105", "-b@101", "~c@104"}, "101"},
		"an older bookmark":    {[]string{"~a@101", "coalesced@101>105", "~c@104", "bookmark@104"}, "101"},
		"once more":            {[]string{"~a@101", "coalesced@101>105", "~c@104", "coalesced@104>110", "~a@105"}, "101"},
		"a bookmark ends them": {[]string{"~a@101", "coalesced@101>105", "~c@104", "bookmark@105"}, "105"},
		"a change ends them":   {[]string{"~a@101", "coalesced@101>105", "~c@104", "~a@106"}, "106"},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, Config{Mode: List}, func(h *harness) {
				h.run(h.list("100", "a@91", "b@92"), h.events(tt.events...))
				h.advance(time.Second)
				h.wantCurrent(tt.at)
			})
		})
	}
}

// TestErrorWithinCoalescedChanges checks that a list follows if a watch ends with an error among
// coalesced changes: the store then does not have the state of any version.
func TestErrorWithinCoalescedChanges(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.run(h.list("100", "a@91", "b@92"), h.events("~a@101", "coalesced@101>105", "-b@101", "~c@104", "broken"),
			h.list("107", "a@101", "b@106"), h.events("~a@108"))
		h.advance(10 * time.Second)
		h.wantObjects("a@108 b@106")
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "0s LIST", "0s WATCH resourceVersion=107")
		h.wantCurrent("108")
	})
}

// TestListAmongCoalesced checks the list after a watch that ended among coalesced changes. Another
// replica may send the list, so the list may be older than the version up to which the watch
// coalesced changes. Later events must still make the store current.
func TestListAmongCoalesced(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(h.events("+a@91", "+b@92", "end@100", "~a@101", "coalesced@101>105", "-b@101", "~c@104", "broken"),
			h.list("104"), h.events("+a@101", "+c@104", "end@104", "~a@108", "bookmark@110"))
		h.advance(30 * time.Second)
		h.wantCurrent("110")
	})
}

// TestRunAmongCoalesced checks that a second Run lists, and does not watch, if the first Run ended
// among coalesced changes.
func TestRunAmongCoalesced(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.run(h.list("100", "a@91", "b@92"), h.events("~a@101", "coalesced@101>105", "-b@101", "~c@104"))
		h.advance(time.Second)
		h.stop()
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100")
		h.run(h.list("107/more", "a@101"), h.list("107", "a@101"), h.events())
		h.advance(5 * time.Second)
		h.wantObjects("a@101")
		h.wantCurrent("107")
	})
}

// TestLaggingReplicaOfAQuietResource checks lists that state their resourceVersion after the items,
// as lists of custom resources do. The last list was at exactly the requested version, because
// nothing had changed. Later lists are from a replica that lags. They must not bring back an object
// that was deleted.
func TestLaggingReplicaOfAQuietResource(t *testing.T) {
	withHarness(t, Config{Mode: Pages}, func(h *harness) {
		if h.enc != wire.JSON {
			return
		}
		list := func(rv string, pods ...string) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				var items []string
				for _, p := range pods {
					items = append(items, string(h.pod(p)))
				}
				fmt.Fprintf(rw, `{"apiVersion":"v1","items":[%s],"kind":"PodList","metadata":{"resourceVersion":%q}}`, strings.Join(items, ","), rv)
			}
		}
		before, after := list("1000", "a@900", "b@901"), list("1001", "a@900")
		var mu sync.Mutex
		watches := 0
		h.server = func(rw http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			mu.Lock()
			if q.Has("watch") {
				watches++
			}
			n := watches
			mu.Unlock()
			answer := after
			switch {
			case q.Has("watch") && n == 1:
				answer = h.events("-b@1001", "error@410")
			case q.Has("watch") && n == 2:
				answer = h.events("error@410")
			case q.Has("watch"):
				answer = hold
			case n == 0:
				answer = before
			case q.Get("limit") == "1" || n == 1:
				// The request is a probe, or a list that the newer replica still serves.
			case q.Get("resourceVersion") == "1001":
				answer = deny(504, "1", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})
			default:
				answer = before
			}
			answer(rw, r)
		}
		c := h.store.Cursor()
		defer c.Close()
		h.run()
		gone := false
		changes := make([]store.Change, 16)
		for range 40 {
			h.advance(time.Second / 2)
			for _, ch := range changes[:c.Next(changes)] {
				if ch.Key() == "n/b" && ch.New != nil && gone {
					t.Error("b, which was deleted, came back")
				}
				gone = gone || ch.Key() == "n/b" && ch.New == nil
			}
		}
		if !gone || watches < 2 {
			t.Errorf("b is gone: %v; %d watches", gone, watches)
		}
	})
}
