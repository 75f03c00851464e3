package proxy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/conn"
)

// tricklingWriter is a client that takes each write after a pause. Like a connection it knows no
// more of a deadline than that a write fails after it.
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

// TestTrickledAnswer: who takes a forwarded answer a little at a time keeps no seat for long; who
// keeps to a modest pace gets all of it, however long the upstream takes; and a watch may be slow.
func TestTrickledAnswer(t *testing.T) {
	const size, writes = 32 << 10, 1000 // as ReverseProxy writes
	for name, tt := range map[string]struct {
		newWriter      func(http.ResponseWriter) *deadlineWriter
		pause, between time.Duration // of the client, and of the upstream
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

// countingWriter counts what is costly for a connection of HTTP/2, and writes since the last flush.
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

// TestFewDeadlines: a large response to a request with a seat is not flushed after each write, nor
// does each set a deadline. What was written is flushed soon, also if the upstream sends no more,
// and then no deadline is left. A WATCH is flushed after each write.
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

// TestNoFlushLost: what is written just as the timer of a flush fires is flushed, too.
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
			go w.flushLater() // as the timer does, but meanwhile
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

// noteDeadline notes how long a write to a client may take.
type noteDeadline struct {
	http.ResponseWriter
	deadline time.Time
	longest  time.Duration // of the writes, what the deadline has left
}

func (w *noteDeadline) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *noteDeadline) Write(p []byte) (int, error) {
	w.longest = max(w.longest, time.Until(w.deadline))
	return w.ResponseWriter.Write(p)
}

// TestPacedAnswers: what holds a seat is paced, also if it asks for an upgrade that it does not
// get, and what is long-running is not. An error has left its seat.
func TestPacedAnswers(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	for path, want := range map[string]time.Duration{
		"/api/v1/pods":                         seatGrace,
		"/api/v1/namespaces/default/pods/none": conn.UnreadTime,
		"/metrics":                             seatGrace,
		"/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1": conn.WriteStall,
		"/api/v1/namespaces/default/pods/none/log":                   conn.UnreadTime,
	} {
		w := &noteDeadline{ResponseWriter: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, path, nil).WithContext(tp.ctx)
		r.Header.Set("Authorization", "Bearer token-jane")
		if path == "/api/v1/pods" {
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Connection", "Upgrade")
		}
		tp.server.ServeHTTP(w, r)
		// What was taken prolongs it.
		if d := w.longest; d < want*5/6 || d > want*7/6 {
			t.Errorf("%s: a write may take %v, not %v", path, d, want)
		}
	}
}
