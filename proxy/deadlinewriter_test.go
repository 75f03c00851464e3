package proxy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/conn"
)

// tricklingWriter simulates a client that reads each write after a pause. As with a connection, a
// write fails if the deadline has passed.
type tricklingWriter struct {
	*httptest.ResponseRecorder
	pause    time.Duration
	deadline time.Time
}

func (w *tricklingWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *tricklingWriter) Write(p []byte) (int, error) {
	time.Sleep(w.pause)
	if !w.deadline.IsZero() && time.Now().After(w.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(p)
}

// TestTrickledAnswer checks how long a client that reads a forwarded answer slowly can occupy a
// seat, that is, a place among the requests in progress. If it reads more slowly than seatPace, a
// write fails within ten minutes. A faster client gets the whole answer, however slow the upstream
// is. The client of a watch, which has no seat, may be slow, but a write to it fails after
// conn.WriteStall.
func TestTrickledAnswer(t *testing.T) {
	const size, writes = 32 << 10, 1000 // as ReverseProxy writes
	for name, tt := range map[string]struct {
		newWriter      func(http.ResponseWriter) *deadlineWriter
		pause, between time.Duration // pauses of the client, and of the upstream
		whole          bool
	}{
		"a trickle":          {newPacedWriter, 4 * time.Minute, 0, false},
		"half the pace":      {newPacedWriter, 2 * size * time.Second / seatPace, 0, false},
		"the pace":           {newPacedWriter, size * time.Second / seatPace, 0, true},
		"a slow upstream":    {newPacedWriter, time.Millisecond, 10 * time.Minute, true},
		"a trickled watch":   {newDeadlineWriter, 4 * time.Minute, 0, true},
		"a watch that hangs": {newDeadlineWriter, 6 * time.Minute, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &tricklingWriter{ResponseRecorder: httptest.NewRecorder(), pause: tt.pause}
			w, began, n := tt.newWriter(client), time.Now(), 0
			for ; n < writes; n++ {
				if _, err := w.Write(make([]byte, size)); err != nil {
					break
				}
				check.NoError(t, w.FlushError())
				time.Sleep(tt.between)
			}
			if whole := n == writes; whole != tt.whole || !whole && time.Since(began) > 10*time.Minute {
				t.Errorf("%s: %d of %d writes in %v", name, n, writes, time.Since(began))
			}
		})
	}
}

// countingWriter counts the operations that are costly on an HTTP/2 connection, and the writes
// since the last flush.
type countingWriter struct {
	*httptest.ResponseRecorder
	deadlines, flushes, unflushed atomic.Int32
}

func (w *countingWriter) SetWriteDeadline(time.Time) error { w.deadlines.Add(1); return nil }

func (w *countingWriter) Flush() {
	w.flushes.Add(1)
	w.unflushed.Store(0)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.unflushed.Add(1)
	return len(p), nil
}

// TestFewDeadlines checks a large response to a request that is not long-running. The proxy does
// not flush it after each write, and does not set a deadline for each write. The written bytes are
// flushed soon, even if the upstream sends no more, and then the deadline is cleared. A WATCH is
// flushed after each write.
func TestFewDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 1000
		write := func(w *deadlineWriter) {
			for range writes {
				must(t)(w.Write(make([]byte, copyBuffer)))
				check.NoError(t, w.FlushError())
			}
		}
		client := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		w := newPacedWriter(client)
		write(w)
		if d, f := client.deadlines.Load(), client.flushes.Load(); d > 10 || f > 0 {
			t.Errorf("%d deadlines and %d flushes of %d writes", d, f, writes)
		}
		time.Sleep(flushDelay)
		synctest.Wait()
		w.mu.Lock()
		if f := client.flushes.Load(); f != 1 || !w.deadline.IsZero() {
			t.Errorf("%d flushes, a deadline at %v", f, w.deadline)
		}
		w.mu.Unlock()
		write(w)
		w.end()
		time.Sleep(flushDelay)
		synctest.Wait()
		check.Equal(t, client.flushes.Load(), 1, "it is flushed when its handler has returned")
		watching := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		write(newDeadlineWriter(watching))
		check.Equal(t, watching.flushes.Load(), writes, "flushes of a WATCH")
	})
}

// TestNoFlushLost checks that bytes are flushed even if they are written just as the flush timer
// fires.
func TestNoFlushLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		w := newPacedWriter(client)
		defer w.end()
		lost := 0
		for i := range 50000 {
			_, _ = w.Write([]byte("x"))
			_ = w.FlushError()
			w.timer.Stop()
			go w.flushLater() // as the timer would, but during a write
			for range i % 100 {
				_, _ = w.Write([]byte("x"))
				_ = w.FlushError()
			}
			synctest.Wait()
			time.Sleep(flushDelay)
			synctest.Wait()
			if n := client.unflushed.Load(); n != 0 {
				lost++
			}
		}
		check.Equal(t, lost, 0, "flushes are lost")
	})
}

// noteDeadline records how long a write to a client may take.
type noteDeadline struct {
	http.ResponseWriter
	deadline time.Time
	longest  time.Duration // longest time left until the deadline at the start of a write
}

func (w *noteDeadline) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *noteDeadline) Write(p []byte) (int, error) {
	w.longest = max(w.longest, time.Until(w.deadline))
	return w.ResponseWriter.Write(p)
}

// TestPacedAnswers checks the write deadlines. The client of a request with a seat must read at a
// minimum pace, even if the request asks for an upgrade and gets none. The client of a long-running
// response may read more slowly. If a request has released its seat and gets an error, its client
// has conn.UnreadTime, even if net/http's buffer for HTTP/1 is too small for the proxy's own error.
func TestPacedAnswers(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	for path, want := range map[string]time.Duration{
		"/api/v1/pods":                         seatGrace,
		"/api/v1/namespaces/default/pods/none": conn.UnreadTime,
		"/metrics":                             seatGrace,
		"/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1": conn.WriteStall,
		"/api/v1/namespaces/default/pods/none/log":                   conn.UnreadTime,
		"/api/v1/namespaces/default/pods/refused":                    conn.UnreadTime,
	} {
		w := &noteDeadline{ResponseWriter: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, path, nil).WithContext(tp.ctx)
		r.Header.Set("Authorization", "Bearer token-jane")
		if path == "/api/v1/pods" {
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Connection", "Upgrade")
		}
		if strings.HasSuffix(path, "refused") { // with an error that names the header
			r.Header.Set("Impersonate-Extra-"+strings.Repeat("a", httpBufferSize*3/4), " ")
		}
		tp.server.ServeHTTP(w, r)
		// The bytes that the client has read extend the deadline.
		if d := w.longest; d < want*5/6 || d > want*7/6 {
			t.Errorf("%s: a write may take %v, not %v", path, d, want)
		}
	}
}
