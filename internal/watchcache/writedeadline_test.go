package watchcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// stuckWriter blocks in Write until its deadline is in the past.
type stuckWriter struct {
	header   http.Header
	deadline chan time.Time
}

func (w *stuckWriter) Header() http.Header                { return w.header }
func (w *stuckWriter) WriteHeader(int)                    {}
func (w *stuckWriter) Flush()                             {}
func (w *stuckWriter) SetWriteDeadline(t time.Time) error { w.deadline <- t; return nil }
func (w *stuckWriter) Write([]byte) (int, error) {
	for d := range w.deadline {
		if !d.IsZero() {
			time.Sleep(time.Until(d))
			return 0, http.ErrHandlerTimeout
		}
	}
	return 0, nil
}

// TestWriteTimeout: a client that takes nothing is let go after a while, one that takes a little
// now and then never; and Close waits for nobody for long.
func TestWriteTimeout(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, nil)
			defer tc.close()
			tc.cache.readWrites.timeout, tc.cache.watchWrites.timeout = 8*time.Minute, 8*time.Minute
			tc.put("ns", "a", "red")
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				w := &stuckWriter{header: http.Header{}, deadline: make(chan time.Time, 16)}
				tc.cache.ServeList(w, newRequest("watch=1&timeoutSeconds=36000"), "", "")
			}()
			slow := newRecorder()
			defer tc.watch("timeoutSeconds=36000", slow)()
			synctest.Wait()
			for range 4 {
				slow.block()
				tc.put("ns", "a", "blue")
				time.Sleep(time.Minute)
				slow.unblock()
				synctest.Wait()
			}
			want := 9 * time.Minute
			if closed {
				tc.cache.Close()
				want = 4*time.Minute + closeGrace
			}
			<-done
			if d := time.Since(began); d > want || d < want-2*time.Minute {
				t.Errorf("closed %v: let go after %v", closed, d)
			}
			if got := len(slow.events(t)); got < 5 {
				t.Errorf("the slow client got %d events", got)
			}
			if n := tc.cache.Stats().Stalled; !closed && n != 1 {
				t.Errorf("%d stalled", n)
			}
		})
	}
}

// TestObjectWriteTimeout: a client that takes nothing of one object, or of a Status that is as long
// as what it has asked for, is let go as one that takes nothing of a LIST is.
func TestObjectWriteTimeout(t *testing.T) {
	notFound := apierrors.NewNotFound(things.GroupVersionResource.GroupResource(), strings.Repeat("x", 100<<10))
	for name, answer := range map[string]func(*Cache, http.ResponseWriter){
		"a GET":    func(c *Cache, w http.ResponseWriter) { c.ServeGet(w, newRequest(""), "ns", "a") },
		"a Status": func(_ *Cache, w http.ResponseWriter) { WriteError(w, newRequest(""), notFound) },
	} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, nil)
			defer tc.close()
			tc.put("ns", "a", "red")
			w := &stuckWriter{header: http.Header{}, deadline: make(chan time.Time, 16)}
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				answer(tc.cache, w)
			}()
			select {
			case <-done:
			case <-time.After(time.Hour):
				close(w.deadline)
				<-done
			}
			if d := time.Since(began); d < writeTimeout || d > writeTimeout+writeTimeout/checksPerTimeout {
				t.Errorf("%s: let go after %v", name, d)
			}
		})
	}
}

// filledWriter takes so many bytes, and then nothing more.
type filledWriter struct {
	*stuckWriter
	room int
}

func (w *filledWriter) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room >= 0 {
		return len(p), nil
	}
	return w.stuckWriter.Write(p)
}

// TestGzipEndTimeout: a client that takes nothing of what a compressor writes at its end is let go
// as well.
func TestGzipEndTimeout(t *testing.T) {
	const head = 10 // of a gzip member, in bytes
	for query, size := range map[string]int{
		"": 2 * gzipAbove,
		"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=36000": 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, nil)
			defer tc.close()
			tc.put("ns", "a", strings.Repeat("c", size))
			r := newRequest(query)
			r.Header.Set("Accept-Encoding", "gzip")
			room := head
			if query == "" {
				whole := httptest.NewRecorder()
				tc.cache.ServeList(whole, r, "", "")
				if whole.Header().Get("Content-Encoding") != "gzip" {
					t.Fatalf("not compressed: %v", whole.Header())
				}
				room = whole.Body.Len() - 1
			}
			w := &filledWriter{&stuckWriter{header: http.Header{}, deadline: make(chan time.Time, 16)}, room}
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				tc.cache.ServeList(w, r, "", "")
			}()
			select {
			case <-done:
			case <-time.After(time.Hour):
				close(w.deadline)
				<-done
			}
			if d := time.Since(began); w.room >= 0 || d < stateGrace || d > writeTimeout+writeTimeout/checksPerTimeout {
				t.Errorf("%q: let go after %v, with %d bytes of room", query, d, w.room)
			}
		})
	}
}

// trickler takes a part of a LIST or of initial events, and then waits, again and again. Like a
// connection it knows no more of a deadline than that a write fails after it.
type trickler struct {
	*httptest.ResponseRecorder
	pause    time.Duration
	deadline atomic.Int64
}

func (w *trickler) SetWriteDeadline(t time.Time) error {
	if w.deadline.Store(0); !t.IsZero() {
		w.deadline.Store(t.UnixNano())
	}
	return nil
}

func (w *trickler) Write(p []byte) (int, error) {
	time.Sleep(w.pause)
	if at := w.deadline.Load(); at != 0 && time.Now().UnixNano() > at {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(p)
}

// TestTrickledState: who takes a state a little at a time, so that no write takes long, does not
// keep it for ever; who is slow and takes more than a modest pace gets all of it, however long it
// takes.
func TestTrickledState(t *testing.T) {
	const size = 20 << 10
	for verb, tt := range map[string]struct {
		many int
		slow time.Duration // the longest pause that is fast enough
	}{
		"":                             {2000, gzipAbove * time.Second / listPace},
		"watch=1&timeoutSeconds=36000": {300, streamBuffer * time.Second / initialPace},
	} {
		for pause, whole := range map[time.Duration]bool{tt.slow / 2: true, 4 * time.Minute: false} {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 0, nil)
				defer tc.close()
				for i := range tt.many {
					tc.put("ns", fmt.Sprint("t", i), strings.Repeat("c", size))
				}
				ctx, cancel := context.WithCancel(t.Context())
				w := &trickler{ResponseRecorder: httptest.NewRecorder(), pause: pause}
				began, done := time.Now(), make(chan struct{})
				var took time.Duration
				go func() {
					defer close(done)
					tc.abandon(w, ctx, verb)
					took = time.Since(began)
				}()
				select {
				case <-done:
				case <-time.After(9 * time.Hour):
				}
				cancel()
				<-done
				got := strings.Count(w.Body.String(), `"kind":"Thing"`)
				if whole != (got == tt.many) || !whole && took > 10*time.Minute {
					t.Errorf("%q, a pause of %v: %d of %d objects in %v", verb, pause, got, tt.many, took)
				}
			})
		}
	}
}

// TestShed: of clients that take nothing, those that are furthest behind are let go, and what was
// kept for them; nobody else is.
func TestShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 2000, nil)
		defer tc.close()
		tc.put("ns", "a", "red")
		stuck := func(query string) <-chan struct{} {
			done := make(chan struct{})
			w := &stuckWriter{header: http.Header{}, deadline: make(chan time.Time, 16)}
			go func() {
				defer close(done)
				tc.cache.ServeList(w, newRequest("watch=1&timeoutSeconds=36000"+query), "", "")
			}()
			synctest.Wait()
			return done
		}
		all, red := stuck(""), stuck("&labelSelector=color%3Dred")
		healthy := newRecorder()
		defer tc.watch("timeoutSeconds=36000", healthy)()
		for i := range 300 {
			tc.put("ns", fmt.Sprint("n", i%100), "blue")
		}
		synctest.Wait()
		kept := tc.cache.BacklogBytes()
		if n := tc.cache.Shed(9); n != 0 {
			t.Errorf("%d are let go that have only just begun to write", n)
		}
		time.Sleep(2 * slowAfter)
		if n := tc.cache.Shed(1); n != 1 {
			t.Errorf("%d are let go", n)
		}
		<-all
		if now := tc.cache.BacklogBytes(); kept < 100*20 || now > kept/10 {
			t.Errorf("%d bytes are kept, and then %d", kept, now)
		}
		synctest.Wait()
		select {
		case <-red:
			t.Error("one that is not late is let go")
		default:
		}
		if n := tc.cache.Shed(9); n != 0 {
			t.Errorf("%d more are let go", n)
		}
		tc.put("ns", "last", "blue")
		synctest.Wait()
		if got := healthy.events(t); !strings.Contains(got[len(got)-1], "last") {
			t.Errorf("the healthy one got %s last", got[len(got)-1])
		}
		tc.cache.Close()
		<-red
	})
}

// lateSource is the source of a watcher for which something is kept.
type lateSource struct{ changeSource }

func (lateSource) kept() int64 { return 1 }

// cutClient is a client of which a test sees that it is let go.
type cutClient struct {
	*recorder
	onCut func()
	cut   bool
}

func (w *cutClient) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		w.cut = true
		w.onCut()
	}
	return nil
}

// TestWriteEndsMeanwhile: of two clients that take nothing one is let go. The other has taken
// everything by then, and stays, whether or not it has begun another write.
func TestWriteEndsMeanwhile(t *testing.T) {
	for name, shed := range map[string]bool{"timed out": false, "shed": true} {
		for _, again := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ds := &writeDeadlines{timeout: time.Minute, stalled: &atomic.Uint64{}}
				source := changeSource(lateSource{})
				var clients [2]*cutClient
				var writes [2]*writeDeadline
				for i := range clients {
					clients[i] = &cutClient{recorder: newRecorder()}
					writes[i] = ds.start(clients[i])
					defer writes[i].close()
					writes[i].source.Store(&source)
				}
				for i := range clients {
					clients[i].onCut = func() {
						writes[i].done()
						other := writes[1-i]
						if other.done(); again {
							_ = other.begin()
						}
					}
				}
				for i := range writes {
					if err := writes[i].begin(); err != nil {
						t.Fatal(err)
					}
				}
				if shed {
					time.Sleep(2 * slowAfter)
					if n := ds.shed(2); n != 1 {
						t.Errorf("%d are shed", n)
					}
				} else {
					time.Sleep(ds.timeout * 3 / 2)
					synctest.Wait()
				}
				if clients[0].cut == clients[1].cut || ds.stalled.Load() != 1 {
					t.Errorf("%s, again %v: let go %v and %v, %d counted", name, again, clients[0].cut, clients[1].cut, ds.stalled.Load())
				}
			})
		}
	}
}

// TestDeafClients: who has been let go, and whose write goes on in spite of that, as over HTTP/2 while
// the connection takes nothing, is counted once and does not stand before others.
func TestDeafClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := &writeDeadlines{timeout: time.Minute, stalled: &atomic.Uint64{}}
		source := changeSource(lateSource{})
		var deaf [3]*cutClient
		for i := range deaf {
			deaf[i] = &cutClient{recorder: newRecorder(), onCut: func() {}}
			wd := ds.start(deaf[i])
			defer wd.close()
			wd.source.Store(&source)
			if err := wd.begin(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * slowAfter)
		for i := range deaf {
			if n := ds.shed(1); n != 1 {
				t.Errorf("round %d: %d are let go", i, n)
			}
		}
		if n := ds.shed(1); n != 0 || !deaf[0].cut || !deaf[1].cut || !deaf[2].cut {
			t.Errorf("%d are let go again", n)
		}
		time.Sleep(3 * ds.timeout)
		synctest.Wait()
		if n := ds.stalled.Load(); n != 3 {
			t.Errorf("%d are counted, want 3", n)
		}
	})
}

// TestStateCountsWaits: a client is too slow for a state by what writes to it take, not by what the
// server takes between them.
func TestStateCountsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := &writeDeadlines{timeout: time.Hour, stalled: &atomic.Uint64{}}
		wd := ds.start(newRecorder())
		defer wd.close()
		wd.beginState(initialPace)
		write := func() error { return wd.during(func() error { time.Sleep(stateGrace / 2); return nil }) }
		for range 3 {
			time.Sleep(2 * stateGrace)
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(); !errors.Is(err, errTooSlow) {
			t.Errorf("a client that took nothing for longer than the grace: %v", err)
		}
	})
}

// TestPromptClientStays: whenever a check comes, it lets nobody go who takes everything at once.
func TestPromptClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose timers end with it
		ds := &writeDeadlines{timeout: time.Hour, stalled: &atomic.Uint64{}}
		wd := ds.start(newRecorder())
		defer wd.close()
		var over atomic.Bool
		defer over.Store(true)
		go func() {
			for !over.Load() {
				_ = wd.begin()
				wd.done()
			}
		}()
		for range 20_000 {
			ds.check()
		}
		if n := ds.stalled.Load(); n != 0 {
			t.Errorf("let go %d times", n)
		}
	})
}

// TestShedSparesThoseSentNothing: a watcher for which the server only computes has taken everything
// that there was.
func TestShedSparesThoseSentNothing(t *testing.T) {
	for _, zip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, nil)
			defer tc.close()
			s := tc.cache.newStream(newRecorder(), "application/json", zip, false)
			defer s.end()
			source := changeSource(lateSource{})
			s.deadline.source.Store(&source)
			s.write(make([]byte, 2*streamBuffer))
			time.Sleep(2 * slowAfter)
			if n := tc.cache.Shed(9); n != 0 {
				t.Errorf("compressed %v: %d are let go", zip, n)
			}
			if err := s.flush(); err != nil {
				t.Error(err)
			}
		})
	}
}
