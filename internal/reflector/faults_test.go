package reflector

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// TestServerRestarted loses the server for a while: what is held stays, and is told to be old.
func TestServerRestarted(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		restarted := make(chan struct{})
		w.run(w.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", w.enc.WatchContentType())
			rw.Write(w.event("~a@11"))
			rw.(http.Flusher).Flush()
			<-restarted
			panic(http.ErrAbortHandler)
		}, w.list("12/more", "a@11"), w.events("~a@13"))
		w.after(time.Minute)
		w.fine("11")
		w.refuse(true)
		close(restarted)
		w.after(2 * time.Second)
		w.told(ErrUnreachable)
		w.holds("a@11")
		if s := w.r.Status(); !errors.Is(s.Err, ErrUnreachable) || !s.Synced {
			t.Errorf("%s", s)
		}
		w.refuse(false)
		w.after(3 * time.Second)
		w.sees("0s LIST", "0s WATCH resourceVersion=10", "1m0s nobody there", "1m0.6s nobody there", "1m1.8s nobody there",
			"1m3s LIST limit=1", "1m3s WATCH resourceVersion=11")
		w.holds("a@13")
		w.fine("13")
		if s := w.r.Status(); s.Relists != 0 {
			t.Errorf("%s", s)
		}
	})
}

// ahead is the answer of a server that has not reached the resourceVersion that was asked for.
func ahead() http.HandlerFunc {
	return deny(504, "1", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})
}

// TestWentBack restores the server from a backup: its older versions are the truth. A watch of a
// version in its future is silent, so a probe finds out.
func TestWentBack(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("100", "a@91=new", "b@92", "c@50"), w.events("brokenLists"), w.events(),
			w.list("60/more", "a@40"), ahead(), w.list("60/more", "a@40"), ahead(), w.list("60/more", "a@40"),
			w.list("60", "a@40=old", "c@50", "d@55"), w.events("~a@61"))
		w.after(10 * time.Second)
		w.told(ErrWentBack)
		w.sees("0s LIST", "0s WATCH resourceVersion=100", "600ms WATCH resourceVersion=100", "1.2s LIST limit=1",
			"1.2s LIST resourceVersion=100 resourceVersionMatch=NotOlderThan limit=1", "1.2s LIST limit=1",
			"2.2s LIST resourceVersion=100 resourceVersionMatch=NotOlderThan limit=1", "2.2s LIST limit=1",
			"2.2s LIST", "2.2s WATCH resourceVersion=60")
		w.holds("a@61 c@50 d@55")
		w.fine("61")
	})
}

// TestLagging refuses a list of a replica that lags behind: an object deleted since would come
// back.
func TestLagging(t *testing.T) {
	inWorld(t, Config{Mode: List, Consistency: Any}, func(w *world) {
		cursor := w.store.Cursor()
		defer cursor.Close()
		w.run(w.list("100", "a@91"), deny(404, ""), w.list("80", "a@70", "gone@60"), w.list("120/more", "a@91"), w.list("120", "a@91"), w.events())
		w.after(2 * time.Second)
		w.sees("0s LIST resourceVersion=0", "0s WATCH resourceVersion=100", "600ms LIST resourceVersion=100 resourceVersionMatch=NotOlderThan",
			"600ms LIST resourceVersion=100 resourceVersionMatch=NotOlderThan limit=1",
			"1.2s LIST resourceVersion=120 resourceVersionMatch=NotOlderThan", "1.2s WATCH resourceVersion=120")
		w.told(ErrServerBehind)
		w.holds("a@91")
		if n := changesOf(cursor); n != 1 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestTooLarge(t *testing.T) {
	inWorld(t, Config{Mode: List, Consistency: Any}, func(w *world) {
		w.run(w.list("100", "a@91"), deny(404, ""),
			deny(504, "", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge}), w.list("120/more", "a@91"), w.list("120", "a@91"), w.events())
		w.after(5 * time.Second)
		w.sees("0s LIST resourceVersion=0", "0s WATCH resourceVersion=100", "600ms LIST resourceVersion=100 resourceVersionMatch=NotOlderThan",
			"1.6s LIST limit=1", "2.2s LIST", "2.2s WATCH resourceVersion=120")
		w.told(ErrServerBehind)
	})
}

// TestBrokenHalfWay keeps what came, removes nothing, and tells each object once.
func TestBrokenHalfWay(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		cursor := w.store.Cursor()
		defer cursor.Close()
		w.run(w.brokenLists(7, "10", "a@1", "b@2", "c@3", "d@4"), w.list("10", "a@1", "b@2", "c@3", "d@4"), w.events())
		w.told(ErrUnreachable)
		w.holds("a@1 b@2")
		if w.store.Synced() {
			t.Error("half a list is taken for all")
		}
		w.after(time.Second)
		w.holds("a@1 b@2 c@3 d@4")
		if n := changesOf(cursor); n != 4 {
			t.Errorf("%d changes", n)
		}
		w.fine("10")
	})
}

func TestDenied(t *testing.T) {
	for _, c := range []struct {
		answer http.HandlerFunc
		want   error
		also   func(error) bool
	}{
		{deny(401, ""), ErrUnauthorized, apierrors.IsUnauthorized},
		{deny(403, ""), ErrForbidden, apierrors.IsForbidden},
		{text(404, "404 page not found"), ErrUnknownResource, apierrors.IsNotFound},
	} {
		inWorld(t, listed, func(w *world) {
			script := []http.HandlerFunc{}
			for range 20 {
				script = append(script, c.answer)
			}
			w.run(append(script, w.list("10", "a@1"), w.events())...)
			s := w.r.Status()
			if !errors.Is(s.Err, c.want) || !c.also(rootOf(s.Err)) {
				t.Errorf("at the first answer: %s", s)
			}
			w.after(10 * time.Minute)
			w.mu.Lock()
			script, w.script = w.script, nil
			w.mu.Unlock()
			if len(script) > 0 {
				t.Errorf("%d tries left after 10 minutes", len(script))
			}
			w.holds("a@1")
		})
	}
}

// rootOf is the StatusError within err.
func rootOf(err error) error {
	var status *apierrors.StatusError
	errors.As(err, &status)
	return status
}

func TestTooManyRequests(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(deny(429, "7"), w.list("10", "a@1"), w.events())
		w.told(ErrTooManyRequests)
		next := w.r.Status().NextRetry
		if d := next.Sub(w.began); d != 7350*time.Millisecond {
			t.Errorf("the next try is told for %v", d)
		}
		w.after(8 * time.Second)
		w.sees("0s LIST", "7.35s LIST", "7.35s WATCH resourceVersion=10")
	})
}

func TestMalformed(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		garbage := func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", w.enc.ContentType())
			rw.Write(append(w.listBody("10", "a@1")[:30], "nonsense, nonsense, nonsense"...))
		}
		w.run(garbage, w.list("10", "a@1"), w.events())
		s := w.r.Status()
		if !errors.Is(s.Err, ErrMalformed) || !strings.Contains(s.Err.Error(), "offset") {
			t.Errorf("%s", s)
		}
		w.after(time.Second)
		w.fine("10")
	})
}

// TestUnreadableObject skips one object, without a name, and takes the others.
func TestUnreadableObject(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10", "a@1", "@2", "c@3"), w.events("~@11", "~a@12"))
		w.holds("a@12 c@3")
		if s := w.r.Status(); s.Phase != Watching || s.ResourceVersion != "12" || !errors.Is(s.Err, ErrMalformed) {
			t.Errorf("%s", s)
		}
		if s := w.r.Status(); s.Skipped != 2 || !errors.Is(s.SkippedErr, ErrMalformed) || !errors.Is(s.SkippedErr, store.ErrNoName) {
			t.Errorf("%s", s)
		}
	})
}

func TestOtherEncoding(t *testing.T) {
	inWorld(t, Config{Mode: List, Encoding: 9}, func(w *world) {
		w.run(w.list("10", "a@1"))
		w.told(ErrEncoding)
		w.holds("")
	})
}

// TestDamagedOnTheWay lists for an object of a watch that cannot be read. Then nothing is wrong any
// more.
func TestDamagedOnTheWay(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10", "a@1"), w.events("~@11", "~a@12"), w.list("13", "a@12", "b@11"), w.events())
		if s := w.r.Status(); !errors.Is(s.Err, ErrMalformed) {
			t.Errorf("%s", s)
		}
		w.after(time.Second)
		w.holds("a@12 b@11")
		w.fine("13")
	})
}

// TestTranscode takes what a server has that knows but one encoding.
func TestTranscode(t *testing.T) {
	other := wire.Protobuf
	cfg := Config{Mode: List, Encoding: other, Transcode: func(dst, object []byte) ([]byte, error) {
		p := &corev1.Pod{}
		if err := json.Unmarshal(object, p); err != nil {
			return nil, err
		}
		raw, err := p.Marshal()
		return append(dst, raw...), err
	}}
	inWorld(t, cfg, func(w *world) {
		if w.enc == other {
			return
		}
		w.store = store.New(store.Config{Encoding: other})
		defer w.store.Close()
		w.r.sink = w.store.Writer(store.Scope{})
		w.run(w.list("10", "a@1", "b@2"), w.events("~a@11", "-b@12"))
		w.holds("a@11")
		w.fine("12")
		a, _ := w.store.Get("n/a")
		if app, _ := a.Label("app"); app != "a" {
			t.Errorf("label %q", app)
		}
	})
}

// TestSilentWatch asks the server of a watch that brings nothing for longer than a server leaves
// one without a bookmark.
func TestSilentWatch(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		w.run(w.list("10", "a@1"), w.events("~a@11"), w.list("11/more", "a@11"), w.list("15/more", "a@11"), w.events(), deny(503, ""), w.list("16", "a@16"), w.events())
		heard := w.r.Status().Heard
		w.after(100 * time.Second)
		w.sees("0s LIST", "0s WATCH resourceVersion=10", "1m30s LIST limit=1")
		if s := w.r.Status(); s.Err != nil || s.Heard.Sub(heard) != bookmarkPeriod {
			t.Errorf("%s, heard after %v", s, s.Heard.Sub(heard))
		}
		w.after(90 * time.Second)
		w.sees("3m0s LIST limit=1", "3m0s WATCH resourceVersion=11")
		w.after(80*time.Second + 100*time.Millisecond)
		w.sees("4m30s LIST limit=1")
		w.told(ErrSilent)
		w.after(2 * time.Second)
		w.sees("4m30.6s LIST", "4m30.6s WATCH resourceVersion=16")
		w.holds("a@16")
		w.fine("16")
	})
}

// TestSilentAfterBookmark: a probe compares with the last bookmark. A server that is there is left
// alone, and one that went back to an event before it is found out.
func TestSilentAfterBookmark(t *testing.T) {
	for name, tt := range map[string]struct {
		mode   Mode
		script func(w *world) []http.HandlerFunc
	}{
		"alone": {List, func(w *world) []http.HandlerFunc {
			return []http.HandlerFunc{w.list("100", "a@100"), w.events("bookmark@200")}
		}},
		"after an event": {List, func(w *world) []http.HandlerFunc {
			return []http.HandlerFunc{w.list("10", "a@1"), w.events("~a@100", "bookmark@200")}
		}},
		"of initial events": {WatchList, func(w *world) []http.HandlerFunc {
			return []http.HandlerFunc{w.events("+a@100", "end@100", "error@410"), w.list("200/more", "a@100"), w.events("+a@100", "end@200")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{Mode: tt.mode}, func(w *world) {
				w.run(append(tt.script(w), w.list("200/more", "a@100"), w.list("100/more", "a@100"))...)
				w.after(10 * time.Second)
				w.fine("200")
				w.mu.Lock()
				w.requests = nil
				w.mu.Unlock()
				w.after(100 * time.Second) // there is one probe
				w.mu.Lock()
				if n := len(w.requests); n != 1 {
					t.Errorf("a server that is there was asked %d times: %v", n, w.requests)
				}
				w.mu.Unlock()
				w.after(100 * time.Second)
				w.told(ErrServerBehind)
			})
		})
	}
}

// TestAnsweredLate: a watch that is answered after half a minute and ends at once has not stood for
// half a minute: it is followed by a wait.
func TestAnsweredLate(t *testing.T) {
	inWorld(t, listed, func(w *world) {
		late := func(rw http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(30 * time.Second): // of the clock of the test
			case <-r.Context().Done():
			}
			rw.Header().Set("Content-Type", w.enc.WatchContentType())
			rw.WriteHeader(http.StatusOK)
		}
		w.run(w.list("10", "a@1"), late, late)
		w.after(31 * time.Second)
		w.sees("0s LIST", "0s WATCH resourceVersion=10", "30.6s WATCH resourceVersion=10")
	})
}
