package watchcache

import (
	"context"
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

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// stuckWriter is a client whose Write blocks until its deadline has passed.
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

// TestWriteTimeout checks that the cache cuts off a client that reads nothing for as long as the
// timeout. It must not cut off a client that reads a little from time to time. Close does not wait
// long for any client.
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
				serveList(tc.cache, w, newRequest("watch=1&timeoutSeconds=36000"), "", "")
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

// TestObjectWriteTimeout checks how long a client that reads nothing may block a response. For a
// GET of one object, the limit is the same as for a LIST. For a large Status, the limit is the same
// as for any single write.
func TestObjectWriteTimeout(t *testing.T) {
	notFound := apierrors.NewNotFound(things.GroupVersionResource.GroupResource(), strings.Repeat("x", 100<<10))
	for name, tt := range map[string]struct {
		answer func(*Cache, http.ResponseWriter)
		want   time.Duration
	}{
		"a GET":    {func(c *Cache, w http.ResponseWriter) { serveGet(c, w, newRequest(""), "ns", "a") }, stateGrace},
		"a Status": {func(_ *Cache, w http.ResponseWriter) { WriteError(w, newRequest(""), notFound) }, writeTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, nil)
			defer tc.close()
			tc.put("ns", "a", "red")
			w := &stuckWriter{header: http.Header{}, deadline: make(chan time.Time, 16)}
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				tt.answer(tc.cache, w)
			}()
			select {
			case <-done:
			case <-time.After(time.Hour):
				close(w.deadline)
				<-done
			}
			if d := time.Since(began); d < tt.want || d > tt.want+writeTimeout/checksPerTimeout {
				t.Errorf("%s: let go after %v", name, d)
			}
		})
	}
}

// filledWriter is a client that reads room bytes, and then nothing more.
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

// TestGzipEndTimeout checks that the cache also cuts off a client that does not read the last bytes
// of a compressed response.
func TestGzipEndTimeout(t *testing.T) {
	const head = 10 // size of a gzip member's header, in bytes
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
				serveList(tc.cache, whole, r, "", "")
				if whole.Header().Get("Content-Encoding") != "gzip" {
					t.Fatalf("not compressed: %v", whole.Header())
				}
				room = whole.Body.Len() - 1
			}
			w := &filledWriter{&stuckWriter{header: http.Header{}, deadline: make(chan time.Time, 16)}, room}
			began, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				serveList(tc.cache, w, r, "", "")
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

// trickler is a client that repeatedly reads a part of a LIST or of initial events, and then
// pauses. Like a connection, it fails writes only after the deadline.
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

// TestTrickledState checks that a client that reads a state in small parts, with a long pause
// before each part, cannot retain the state forever. A slow client that exceeds the required rate
// receives all of it.
func TestTrickledState(t *testing.T) {
	testenv.SkipUnderRace(t)
	const size = 20 << 10
	for verb, tt := range map[string]struct {
		many int
		slow time.Duration // the longest pause of a client that is fast enough
	}{
		"":                             {2000, gzipAbove * time.Second / listRate},
		"watch=1&timeoutSeconds=36000": {300, streamBuffer * time.Second / initialRate},
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

// TestShed checks that Shed cuts off the stalled clients that are furthest behind, and no other
// client. It also checks that the cache frees the memory retained for them.
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
				serveList(tc.cache, w, newRequest("watch=1&timeoutSeconds=36000"+query), "", "")
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
		check.Equal(t, shedStuck(&tc.cache.watchWrites, 9), 0, "are let go that have only just begun to write")
		time.Sleep(2 * slowAfter)
		check.Equal(t, shedStuck(&tc.cache.watchWrites, 1), 1, "are let go")
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
		check.Equal(t, shedStuck(&tc.cache.watchWrites, 9), 0, "more are let go")
		tc.put("ns", "last", "blue")
		synctest.Wait()
		if got := healthy.events(t); !strings.Contains(got[len(got)-1], "last") {
			t.Errorf("the healthy one got %s last", got[len(got)-1])
		}
		tc.cache.Close()
		<-red
	})
}
