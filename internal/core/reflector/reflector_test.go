package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

var listed = Config{Mode: List}

func TestFirstList(t *testing.T) {
	withHarness(t, Config{}, func(h *harness) {
		h.run(version("1.37"), h.list("10", "a@1", "b@2", "c@3"), h.events("~a@11", "-b@12", "+d@13", "bookmark@20"))
		h.wantRequests("0s VERSION", "0s LIST", "0s WATCH resourceVersion=10")
		h.wantObjects("a@11 c@3 d@13")
		h.wantCurrent("20")
		if s := h.r.Status(); s.Listed != 3 || s.Mode != List || s.Relists != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestEmptyList(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10"), h.events())
		h.wantObjects("")
		h.wantCurrent("10")
	})
}

func TestPages(t *testing.T) {
	withHarness(t, Config{PageSize: 2}, func(h *harness) {
		h.run(version("1.32"), h.list("10/one", "a@1", "b@2"), h.list("10/two", "c@3", "d@4"), h.list("10", "e@5"), h.events())
		h.wantRequests("0s VERSION", "0s LIST limit=2", "0s LIST limit=2 continue=one", "0s LIST limit=2 continue=two",
			"0s WATCH resourceVersion=10")
		h.wantObjects("a@1 b@2 c@3 d@4 e@5")
		h.wantCurrent("10")
	})
}

// TestPageFails checks that the reflector requests only a failed page again, and not the pages
// before it.
func TestPageFails(t *testing.T) {
	withHarness(t, Config{Mode: Pages, PageSize: 2}, func(h *harness) {
		h.run(h.list("10/one", "a@1", "b@2"), h.brokenList(6, "10", "c@3"), h.list("10", "c@3"), h.events())
		h.wantReported(ErrUnreachable)
		h.advance(600 * time.Millisecond)
		h.wantRequests("0s LIST limit=2", "0s LIST limit=2 continue=one", "600ms LIST limit=2 continue=one", "600ms WATCH resourceVersion=10")
		h.wantObjects("a@1 b@2 c@3")
		h.wantCurrent("10")
	})
}

func TestExpiredContinue(t *testing.T) {
	withHarness(t, Config{Mode: Pages, PageSize: 2}, func(h *harness) {
		h.run(h.list("10/one", "a@1", "b@2"), deny(410, ""), h.list("90", "a@1", "c@80"), h.events())
		h.wantRequests("0s LIST limit=2", "0s LIST limit=2 continue=one", "0s LIST", "0s WATCH resourceVersion=90")
		h.wantReported(ErrExpired)
		h.wantObjects("a@1 c@80")
		h.wantCurrent("90")
	})
}

func TestWatchList(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(h.events("+a@1", "+b@2", "end@10", "~a@11"), h.events("+a@11", "end@30"))
		h.wantRequests("0s WATCH resourceVersionMatch=NotOlderThan sendInitialEvents=true")
		h.wantObjects("a@11 b@2")
		h.wantCurrent("11")
		// The watch must remain open after the deadline for the initial events.
		h.advance(time.Minute)
		h.wantCurrent("11")
		h.wantRequests()
	})
}

// TestSlowInitialEvents checks that there is no limit for the total time of initial events while
// they continue to arrive. They are in the order of keys, not of resourceVersions.
func TestSlowInitialEvents(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			for _, e := range []string{"+a@9", "+b@2", "+c@3", "end@10"} {
				time.Sleep(19 * time.Second)
				rw.Write(h.event(e))
				rw.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		h.advance(2 * time.Minute)
		h.wantObjects("a@9 b@2 c@3")
		h.wantCurrent("10")
	})
}

// TestChangesAreNoInitialEvents checks that the deadline also passes if the server sends changes
// instead of the bookmark: such a server does not support initial events.
func TestChangesAreNoInitialEvents(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			for i := 0; r.Context().Err() == nil; i++ {
				rw.Write(h.event(fmt.Sprintf("%cpod-%d@%d", "+~"[i%2], i/2, i+1)))
				rw.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})
		h.advance(22 * time.Second)
		h.wantReported(ErrNoBookmark)
	})
}

func TestBookmarkMissing(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(h.events("+a@1", "+b@2"), version("1.26"), h.list("10", "a@1", "b@2"), h.events())
		h.wantObjects("a@1 b@2")
		if h.store.Synced() {
			t.Error("synced without the bookmark")
		}
		h.advance(21 * time.Second)
		h.wantReported(ErrNoBookmark)
		h.wantRequests("0s WATCH resourceVersionMatch=NotOlderThan sendInitialEvents=true", "20.001s VERSION", "20.001s LIST limit=500",
			"20.001s WATCH resourceVersion=10")
		h.wantCurrent("10")
		if s := h.r.Status(); !errors.Is(s.LastErr, ErrNoBookmark) {
			t.Errorf("%+v", s)
		}
	})
}

// TestNoResponseToInitialEvents checks that the deadline for initial events also passes if the
// server does not respond at all, and that a list follows.
func TestNoResponseToInitialEvents(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(hold, version("1.37"), h.list("10", "a@1"), h.events())
		h.advance(20 * time.Second)
		h.wantReported(ErrNoBookmark)
		h.wantCurrent("10")
	})
}

// changesOf reads all changes of a cursor and returns their number.
func changesOf(c *store.Cursor) (n int) {
	buf := make([]store.Change, 100)
	for {
		got := c.Next(buf)
		if got == 0 {
			return n
		}
		n += got
	}
}

// TestRelist checks the state and the changes after a 410 in an ERROR event. Unchanged objects must
// cause no changes.
func TestRelist(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		withHarness(t, Config{Mode: mode}, func(h *harness) {
			state := func(rv string, pods ...string) http.HandlerFunc {
				if mode == List {
					return h.list(rv, pods...)
				}
				var events []string
				for _, p := range pods {
					events = append(events, "+"+p)
				}
				return h.events(append(events, "end@"+rv)...)
			}
			script := []http.HandlerFunc{state("10", "a@1", "b@2", "c@3")}
			if mode == List {
				script = append(script, h.events("~a@11", "error@410"))
			} else {
				script[0] = h.events("+a@1", "+b@2", "+c@3", "end@10", "~a@11", "error@410")
				// Initial events state their resourceVersion only at their end, so the reflector sends a probe
				// before them.
				script = append(script, h.list("85/more", "a@11"))
			}
			cursor := h.store.Cursor()
			defer cursor.Close()
			h.run(append(script, state("90", "a@11", "c@3", "d@80"), h.events())...)
			h.wantReported(ErrExpired)
			h.wantObjects("a@11 c@3 d@80")
			if n := changesOf(cursor); n != 6 { // ADDED a, b, c; MODIFIED a; ADDED d; DELETED b
				t.Errorf("%d changes", n)
			}
			if s := h.r.Status(); s.Relists != 1 {
				t.Errorf("%s", s)
			}
		})
	}
}

// TestRelistUnchanged checks at what times the reflector relists repeatedly, and that the relists
// cause no changes if no object has changed.
func TestRelistUnchanged(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		script := []http.HandlerFunc{}
		for range 5 {
			script = append(script, h.list("10", "a@1", "b@2"), h.events("error@410"))
		}
		h.run(append(script, h.list("10", "a@1", "b@2"), h.events())...)
		cursor := h.store.Cursor()
		defer cursor.Close()
		check.Equal(t, changesOf(cursor), 2, "changes")
		h.advance(time.Minute)
		check.Equal(t, changesOf(cursor), 0, "changes")
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "0s LIST", "0s WATCH resourceVersion=10",
			"600ms LIST", "600ms WATCH resourceVersion=10", "1.2s LIST", "1.2s WATCH resourceVersion=10",
			"1.8s LIST", "1.8s WATCH resourceVersion=10", "2.4s LIST", "2.4s WATCH resourceVersion=10")
		h.wantCurrent("10")
	})
}

func TestImmediateEOF(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		eof := h.events("EOF")
		h.run(h.list("10", "a@1"), eof, eof, eof, h.list("15", "a@1"), eof, h.events("bookmark@20"))
		h.advance(10 * time.Second)
		h.wantReported(ErrEnded)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "600ms WATCH resourceVersion=10", "1.8s WATCH resourceVersion=10",
			"4.2s LIST", "4.2s WATCH resourceVersion=15", "5.4s WATCH resourceVersion=15")
		h.wantCurrent("20")
	})
}

// TestResume checks that a watch resumes at the last version of the previous watch, which ended
// normally.
func TestResume(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		ends := func(rw http.ResponseWriter, r *http.Request) {
			h.events("~a@11", "EOF")(rw, r)
			for minute := range 5 {
				rw.(http.Flusher).Flush()
				time.Sleep(time.Minute)
				rw.Write(h.event(fmt.Sprint("bookmark@", 12+minute)))
			}
		}
		h.run(h.list("10", "a@1"), ends, h.events("~a@17"))
		h.wantCurrent("11")
		h.advance(5 * time.Minute)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "5m0s WATCH resourceVersion=16")
		h.wantObjects("a@17")
		h.wantCurrent("17")
	})
}

// TestReplayedEvents checks a server whose watch repeats events that are older than the version
// from which the watch started. The reflector must ignore them and remain current.
func TestReplayedEvents(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10", "a@7"), h.events("~a@5", "bookmark@12", "~a@6"))
		h.wantObjects("a@7")
		h.wantCurrent("12")
	})
}

// TestHalfAnEvent checks that the store contains the object of an event as soon as the event has
// arrived, even if half of the next event has arrived with it.
func TestHalfAnEvent(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			next := h.event("~a@12")
			rw.Write(append(h.event("~a@11"), next[:len(next)/2]...))
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		h.wantObjects("a@11")
	})
}

// TestBlockedCursor checks a cursor that no consumer reads while one object is updated more often
// than the log has entries. The cursor must keep one entry per key.
func TestBlockedCursor(t *testing.T) {
	const updates = 2000
	withHarness(t, listed, func(h *harness) {
		cursor := h.store.Cursor()
		defer cursor.Close()
		var events []string
		big := strings.Repeat("x", 10_000)
		for i := range updates {
			events = append(events, fmt.Sprintf("~a@%d=%s", 1000+i, big))
		}
		h.run(h.list("10", "a@1"), h.events(events...))
		h.wantObjects("a@" + strconv.Itoa(1000+updates-1))
		if n := cursor.Pending(); n > 1 {
			t.Errorf("%d keys are kept for the cursor", n)
		}
		h.wantCurrent(strconv.Itoa(1000 + updates - 1))
	})
}

func TestStop(t *testing.T) {
	for name, script := range map[string]func(*harness) []http.HandlerFunc{
		"asking":  func(h *harness) []http.HandlerFunc { return []http.HandlerFunc{hold} },
		"listing": func(h *harness) []http.HandlerFunc { return []http.HandlerFunc{version("1.37"), hold} },
		"waiting": func(h *harness) []http.HandlerFunc { return []http.HandlerFunc{version("1.37"), deny(403, "")} },
		"watching": func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{version("1.37"), h.list("10"), h.events()}
		},
		"within a list": func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{version("1.37"), func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", contentType(h.enc))
				body := h.listBody("10", "a@1", "b@2")
				rw.Write(body[:len(body)*7/10])
				rw.(http.Flusher).Flush()
				<-r.Context().Done()
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, Config{}, func(h *harness) {
				h.run(script(h)...)
				check.ErrorIs(t, h.r.Run(context.Background()), ErrRunning)
				began := time.Now()
				if err := h.stop(); !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if s := h.r.Status(); s.Phase != Stopped {
					t.Errorf("%s", s)
				}
			})
		})
	}
}

func TestRunAgain(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10", "a@1"), h.events("~a@11"))
		h.stop()
		h.requests = nil
		h.run(h.events("~a@12"))
		h.wantRequests("0s WATCH resourceVersion=11")
		h.wantObjects("a@12")
		h.wantCurrent("12")
	})
}

func TestStoreClosed(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.store.Close()
		h.run(h.list("10", "a@1"))
		check.ErrorIs(t, h.stop(), store.ErrClosed)
	})
}

// TestAnswered checks which errors a response to a probe clears from the Status.
func TestAnswered(t *testing.T) {
	for _, test := range []struct {
		sentinel error
		current  bool
		ends     bool
	}{{ErrEnded, false, true}, {ErrTooManyRequests, false, false}, {ErrTooManyRequests, true, true}, {ErrSilent, true, false}} {
		r := &Reflector{}
		r.status.failure = &Error{Phase: Watching, Sentinel: test.sentinel}
		r.status.judge()
		if r.answered(test.current); (r.status.Err == nil) != test.ends || r.status.Heard.IsZero() {
			t.Errorf("%v, current %t: %v", test.sentinel, test.current, r.status.Err)
		}
	}
}
