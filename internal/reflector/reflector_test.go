package reflector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/store"
)

var listed = Config{Mode: List}

func TestFirstList(t *testing.T) {
	inWorld(t, Config{}, func(w *world) {
		w.run(version("1.37"), w.list("10", "a@1", "b@2", "c@3"), w.events("~a@11", "-b@12", "+d@13", "bookmark@20"))
		w.sees("0s VERSION", "0s LIST", "0s WATCH resourceVersion=10")
		w.holds("a@11 c@3 d@13")
		w.fine("20")
		if s := w.r.Status(); s.Listed != 3 || s.Mode != List || s.Relists != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestEmptyList(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10"), w.events())
		w.holds("")
		w.fine("10")
	})
}

func TestPages(t *testing.T) {
	inWorld(t, Config{PageSize: 2}, func(w *world) {
		w.run(version("1.32"), w.list("10/one", "a@1", "b@2"), w.list("10/two", "c@3", "d@4"), w.list("10", "e@5"), w.events())
		w.sees("0s VERSION", "0s LIST limit=2", "0s LIST limit=2 continue=one", "0s LIST limit=2 continue=two",
			"0s WATCH resourceVersion=10")
		w.holds("a@1 b@2 c@3 d@4 e@5")
		w.fine("10")
	})
}

// TestPageFails asks for the same page again, and loses nothing of those before it.
func TestPageFails(t *testing.T) {
	inWorld(t, Config{Mode: Pages, PageSize: 2}, func(w *world) {
		w.run(w.list("10/one", "a@1", "b@2"), w.brokenLists(6, "10", "c@3"), w.list("10", "c@3"), w.events())
		w.told(ErrUnreachable)
		w.after(600 * time.Millisecond)
		w.sees("0s LIST limit=2", "0s LIST limit=2 continue=one", "600ms LIST limit=2 continue=one", "600ms WATCH resourceVersion=10")
		w.holds("a@1 b@2 c@3")
		w.fine("10")
	})
}

func TestExpiredContinue(t *testing.T) {
	inWorld(t, Config{Mode: Pages, PageSize: 2}, func(w *world) {
		w.run(w.list("10/one", "a@1", "b@2"), deny(410, ""), w.list("90", "a@1", "c@80"), w.events())
		w.sees("0s LIST limit=2", "0s LIST limit=2 continue=one", "0s LIST", "0s WATCH resourceVersion=90")
		w.told(ErrExpired)
		w.holds("a@1 c@80")
		w.fine("90")
	})
}

func TestWatchList(t *testing.T) {
	inWorld(t, Config{Mode: WatchList}, func(w *world) {
		w.run(w.events("+a@1", "+b@2", "end@10", "~a@11"), w.events("+a@11", "end@30"))
		w.sees("0s WATCH resourceVersionMatch=NotOlderThan sendInitialEvents=true")
		w.holds("a@11 b@2")
		w.fine("11")
		// Long after the deadline of the initial events the watch still stands.
		w.after(time.Minute)
		w.fine("11")
		w.sees()
	})
}

// TestSlowInitialEvents gives them all the time they need, as long as they come. They come in the
// order of keys, changes in that of resourceVersions.
func TestSlowInitialEvents(t *testing.T) {
	inWorld(t, Config{Mode: WatchList}, func(w *world) {
		w.run(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", w.enc.WatchContentType())
			for _, e := range []string{"+a@9", "+b@2", "+c@3", "end@10"} {
				time.Sleep(19 * time.Second)
				rw.Write(w.event(e))
				rw.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		w.after(2 * time.Minute)
		w.holds("a@9 b@2 c@3")
		w.fine("10")
	})
}

// TestChangesAreNoInitialEvents notices a server that does not know of initial events, however much
// it has to tell.
func TestChangesAreNoInitialEvents(t *testing.T) {
	inWorld(t, Config{Mode: WatchList}, func(w *world) {
		w.run(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", w.enc.WatchContentType())
			for i := 0; r.Context().Err() == nil; i++ {
				rw.Write(w.event(fmt.Sprintf("%cpod-%d@%d", "+~"[i%2], i/2, i+1)))
				rw.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
		})
		w.after(22 * time.Second)
		w.told(ErrNoBookmark)
	})
}

func TestBookmarkNeverComes(t *testing.T) {
	inWorld(t, Config{Mode: WatchList}, func(w *world) {
		w.run(w.events("+a@1", "+b@2"), version("1.26"), w.list("10", "a@1", "b@2"), w.events())
		w.holds("a@1 b@2")
		if w.store.Synced() {
			t.Error("synced without the bookmark")
		}
		w.after(21 * time.Second)
		w.told(ErrNoBookmark)
		w.sees("0s WATCH resourceVersionMatch=NotOlderThan sendInitialEvents=true", "20.001s VERSION", "20.001s LIST limit=500",
			"20.001s WATCH resourceVersion=10")
		w.fine("10")
		if s := w.r.Status(); !errors.Is(s.LastErr, ErrNoBookmark) {
			t.Errorf("%+v", s)
		}
	})
}

// TestAnswerNeverComes is the same with a server that does not even answer.
func TestAnswerNeverComes(t *testing.T) {
	inWorld(t, Config{Mode: WatchList}, func(w *world) {
		w.run(hold, version("1.37"), w.list("10", "a@1"), w.events())
		w.after(20 * time.Second)
		w.told(ErrNoBookmark)
		w.fine("10")
	})
}

// changes counts what a cursor sees.
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

// TestRelist lists anew after 410, as an ERROR event and as an answer: what is unchanged is no
// event.
func TestRelist(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		inWorld(t, Config{Mode: mode}, func(w *world) {
			state := func(rv string, pods ...string) http.HandlerFunc {
				if mode == List {
					return w.list(rv, pods...)
				}
				var events []string
				for _, p := range pods {
					events = append(events, "+"+p)
				}
				return w.events(append(events, "end@"+rv)...)
			}
			script := []http.HandlerFunc{state("10", "a@1", "b@2", "c@3")}
			if mode == List {
				script = append(script, w.events("~a@11", "error@410"))
			} else {
				script[0] = w.events("+a@1", "+b@2", "+c@3", "end@10", "~a@11", "error@410")
				script = append(script, w.list("85/more", "a@11")) // initial events tell their resourceVersion last
			}
			cursor := w.store.Cursor()
			defer cursor.Close()
			w.run(append(script, state("90", "a@11", "c@3", "d@80"), w.events())...)
			w.told(ErrExpired)
			w.holds("a@11 c@3 d@80")
			if n := changesOf(cursor); n != 6 { // a b c, a, d, b
				t.Errorf("%d changes", n)
			}
			if s := w.r.Status(); s.Relists != 1 {
				t.Errorf("%s", s)
			}
		})
	}
}

// TestRelistUnchanged relists again and again, at a pace, and nobody sees anything.
func TestRelistUnchanged(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		script := []http.HandlerFunc{}
		for range 5 {
			script = append(script, w.list("10", "a@1", "b@2"), w.events("error@410"))
		}
		w.run(append(script, w.list("10", "a@1", "b@2"), w.events())...)
		cursor := w.store.Cursor()
		defer cursor.Close()
		if n := changesOf(cursor); n != 2 {
			t.Errorf("%d changes", n)
		}
		w.after(time.Minute)
		if n := changesOf(cursor); n != 0 {
			t.Errorf("%d changes", n)
		}
		w.sees("0s LIST", "0s WATCH resourceVersion=10", "0s LIST", "0s WATCH resourceVersion=10",
			"600ms LIST", "600ms WATCH resourceVersion=10", "1.2s LIST", "1.2s WATCH resourceVersion=10",
			"1.8s LIST", "1.8s WATCH resourceVersion=10", "2.4s LIST", "2.4s WATCH resourceVersion=10")
		w.fine("10")
	})
}

func TestEOFAtOnce(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		eof := w.events("EOF")
		w.run(w.list("10", "a@1"), eof, eof, eof, w.list("15", "a@1"), eof, w.events("bookmark@20"))
		w.after(10 * time.Second)
		w.told(ErrEnded)
		w.sees("0s LIST", "0s WATCH resourceVersion=10", "600ms WATCH resourceVersion=10", "1.8s WATCH resourceVersion=10",
			"4.2s LIST", "4.2s WATCH resourceVersion=15", "5.4s WATCH resourceVersion=15")
		w.fine("20")
	})
}

// TestResume resumes a watch that ended in its time where it was.
func TestResume(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		ends := func(rw http.ResponseWriter, r *http.Request) {
			w.events("~a@11", "EOF")(rw, r)
			for range 5 {
				rw.(http.Flusher).Flush()
				time.Sleep(time.Minute)
				rw.Write(w.event("bookmark@11"))
			}
		}
		w.run(w.list("10", "a@1"), ends, w.events("~a@12"))
		w.fine("11")
		w.after(5 * time.Minute)
		w.sees("0s LIST", "0s WATCH resourceVersion=10", "5m0s WATCH resourceVersion=11")
		w.holds("a@12")
		w.fine("12")
	})
}

// TestReplayedEvents takes nothing from a server that sends again what was before the watch, and is
// not less current for it.
func TestReplayedEvents(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10", "a@7"), w.events("~a@5", "bookmark@12", "~a@6"))
		w.holds("a@7")
		w.fine("12")
	})
}

// TestHalfAnEvent makes an event visible while the next one is half here.
func TestHalfAnEvent(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", w.enc.WatchContentType())
			next := w.event("~a@12")
			rw.Write(append(w.event("~a@11"), next[:len(next)/2]...))
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		w.holds("a@11")
	})
}

// TestBlockedCursor updates one object much more often than the log holds, while a cursor is never
// read.
func TestBlockedCursor(t *testing.T) {
	const updates = 2000
	inWorld(t, listed, func(w *world) {
		cursor := w.store.Cursor()
		defer cursor.Close()
		var events []string
		big := strings.Repeat("x", 10_000)
		for i := range updates {
			events = append(events, fmt.Sprintf("~a@%d=%s", 1000+i, big))
		}
		w.run(w.list("10", "a@1"), w.events(events...))
		w.holds("a@" + strconv.Itoa(1000+updates-1))
		if n := cursor.Pending(); n > 1 {
			t.Errorf("%d keys are kept for the cursor", n)
		}
		w.fine(strconv.Itoa(1000 + updates - 1))
	})
}

func TestStop(t *testing.T) {
	for name, script := range map[string]func(*world) []http.HandlerFunc{
		"asking":  func(w *world) []http.HandlerFunc { return []http.HandlerFunc{hold} },
		"listing": func(w *world) []http.HandlerFunc { return []http.HandlerFunc{version("1.37"), hold} },
		"waiting": func(w *world) []http.HandlerFunc { return []http.HandlerFunc{version("1.37"), deny(403, "")} },
		"watching": func(w *world) []http.HandlerFunc {
			return []http.HandlerFunc{version("1.37"), w.list("10"), w.events()}
		},
		"within a list": func(w *world) []http.HandlerFunc {
			return []http.HandlerFunc{version("1.37"), func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", w.enc.ContentType())
				body := w.listBody("10", "a@1", "b@2")
				rw.Write(body[:len(body)*7/10])
				rw.(http.Flusher).Flush()
				<-r.Context().Done()
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{}, func(w *world) {
				w.run(script(w)...)
				if err := w.r.Run(context.Background()); !errors.Is(err, ErrRunning) {
					t.Errorf("%v", err)
				}
				began := time.Now()
				if err := w.stop(); !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if s := w.r.Status(); s.Phase != Stopped {
					t.Errorf("%s", s)
				}
			})
		})
	}
}

// TestRunAgain resumes where the first Run was.
func TestRunAgain(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10", "a@1"), w.events("~a@11"))
		w.stop()
		w.requests = nil
		w.run(w.events("~a@12"))
		w.sees("0s WATCH resourceVersion=11")
		w.holds("a@12")
		w.fine("12")
	})
}

func TestStoreClosed(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.store.Close()
		w.run(w.list("10", "a@1"))
		if err := w.stop(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// TestChanged is told of each transition.
func TestChanged(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		waited := make(chan Status)
		go func() {
			for {
				changed := w.r.Changed()
				if s := w.r.Status(); s.Err != nil {
					waited <- s
					return
				}
				<-changed
			}
		}()
		w.run(deny(403, ""))
		if s := <-waited; !errors.Is(s.Err, ErrForbidden) {
			t.Errorf("%s", s)
		}
		synctest.Wait()
	})
}

// TestAnswered is what the answer to a probe ends of what the Status says.
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
