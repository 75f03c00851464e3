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

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestServerRestarted checks that while the server does not run, the store keeps its objects and
// Status.Err is ErrUnreachable. When the server runs again, the reflector must resume without a
// list.
func TestServerRestarted(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		restarted := make(chan struct{})
		h.run(h.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			rw.Write(h.event("~a@11"))
			rw.(http.Flusher).Flush()
			<-restarted
			panic(http.ErrAbortHandler)
		}, h.list("12/more", "a@11"), h.events("~a@13"))
		h.advance(time.Minute)
		h.wantCurrent("11")
		h.refuseConnections(true)
		close(restarted)
		h.advance(2 * time.Second)
		h.wantReported(ErrUnreachable)
		h.wantObjects("a@11")
		if s := h.r.Status(); !errors.Is(s.Err, ErrUnreachable) || !s.Synced {
			t.Errorf("%s", s)
		}
		h.refuseConnections(false)
		h.advance(3 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "1m0s no server", "1m0.6s no server", "1m1.8s no server",
			"1m3s LIST limit=1", "1m3s WATCH resourceVersion=11")
		h.wantObjects("a@13")
		h.wantCurrent("13")
		if s := h.r.Status(); s.Relists != 0 {
			t.Errorf("%s", s)
		}
	})
}

// tooLarge responds like a server that has not reached the requested resourceVersion.
func tooLarge() http.HandlerFunc {
	return deny(504, "1", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})
}

// TestWentBack checks a server that was restored from a backup. The reflector must replace newer
// stored versions with the server's older ones. A watch from a version that the server has not
// reached yet is silent, so a probe must detect the restore.
func TestWentBack(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("100", "a@91=new", "b@92", "c@50"), h.events("broken"), h.events(),
			h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"),
			h.list("60", "a@40=old", "c@50", "d@55"), h.events("~a@61"))
		h.advance(10 * time.Second)
		h.wantReported(ErrWentBack)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "600ms WATCH resourceVersion=100", "1.2s LIST limit=1",
			"1.2s LIST resourceVersion=100 resourceVersionMatch=NotOlderThan limit=1", "1.2s LIST limit=1",
			"2.2s LIST resourceVersion=100 resourceVersionMatch=NotOlderThan limit=1", "2.2s LIST limit=1",
			"2.2s LIST", "2.2s WATCH resourceVersion=60")
		h.wantObjects("a@61 c@50 d@55")
		h.wantCurrent("61")
	})
}

// TestLagging checks that the reflector does not store a list from a replica that lags. The list is
// older than the store, and contains an object that was deleted in between.
func TestLagging(t *testing.T) {
	withHarness(t, Config{Mode: List, Consistency: Any}, func(h *harness) {
		cursor := h.store.Cursor()
		defer cursor.Close()
		h.run(h.list("100", "a@91"), deny(404, ""), h.list("80", "a@70", "gone@60"), h.list("120/more", "a@91"), h.list("120", "a@91"), h.events())
		h.advance(2 * time.Second)
		h.wantRequests("0s LIST resourceVersion=0", "0s WATCH resourceVersion=100", "600ms LIST resourceVersion=100 resourceVersionMatch=NotOlderThan",
			"600ms LIST resourceVersion=100 resourceVersionMatch=NotOlderThan limit=1",
			"1.2s LIST resourceVersion=120 resourceVersionMatch=NotOlderThan", "1.2s WATCH resourceVersion=120")
		h.wantReported(ErrServerBehind)
		h.wantObjects("a@91")
		check.Equal(t, changesOf(cursor), 1, "changes")
	})
}

func TestTooLarge(t *testing.T) {
	withHarness(t, Config{Mode: List, Consistency: Any}, func(h *harness) {
		h.run(h.list("100", "a@91"), deny(404, ""),
			deny(504, "", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge}), h.list("120/more", "a@91"), h.list("120", "a@91"), h.events())
		h.advance(5 * time.Second)
		h.wantRequests("0s LIST resourceVersion=0", "0s WATCH resourceVersion=100", "600ms LIST resourceVersion=100 resourceVersionMatch=NotOlderThan",
			"1.6s LIST limit=1", "2.2s LIST", "2.2s WATCH resourceVersion=120")
		h.wantReported(ErrServerBehind)
	})
}

// TestBrokenHalfWay checks a list that ends in the middle. Its objects must be stored, no object
// may be deleted because of it, and each object must cause one change.
func TestBrokenHalfWay(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		cursor := h.store.Cursor()
		defer cursor.Close()
		h.run(h.brokenList(7, "10", "a@1", "b@2", "c@3", "d@4"), h.list("10", "a@1", "b@2", "c@3", "d@4"), h.events())
		h.wantReported(ErrUnreachable)
		h.wantObjects("a@1 b@2")
		if h.store.Synced() {
			t.Error("half a list is taken for all")
		}
		h.advance(time.Second)
		h.wantObjects("a@1 b@2 c@3 d@4")
		check.Equal(t, changesOf(cursor), 4, "changes")
		h.wantCurrent("10")
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
		withHarness(t, listed, func(h *harness) {
			script := []http.HandlerFunc{}
			for range 20 {
				script = append(script, c.answer)
			}
			h.run(append(script, h.list("10", "a@1"), h.events())...)
			s := h.r.Status()
			if !errors.Is(s.Err, c.want) || !c.also(rootOf(s.Err)) {
				t.Errorf("at the first answer: %s", s)
			}
			h.advance(10 * time.Minute)
			h.mu.Lock()
			script, h.script = h.script, nil
			h.mu.Unlock()
			if len(script) > 0 {
				t.Errorf("%d tries left after 10 minutes", len(script))
			}
			h.wantObjects("a@1")
		})
	}
}

func rootOf(err error) error {
	var status *apierrors.StatusError
	errors.As(err, &status)
	return status
}

func TestTooManyRequests(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(deny(429, "7"), h.list("10", "a@1"), h.events())
		h.wantReported(ErrTooManyRequests)
		next := h.r.Status().NextRetry
		check.Equal(t, next.Sub(h.began), 7350*time.Millisecond, "the next try is announced for")
		h.advance(8 * time.Second)
		h.wantRequests("0s LIST", "7.35s LIST", "7.35s WATCH resourceVersion=10")
	})
}

// TestProbeIsPutOff checks that the Retry-After of a probe's response delays the next request:
// another probe, or the list after a failed probe.
func TestProbeIsPutOff(t *testing.T) {
	gone := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, tt := range map[string]struct {
		script func(h *harness) []http.HandlerFunc
		want   []string
	}{
		"silent": {func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), deny(429, "100"), h.list("10/more", "a@1")}
		}, []string{"0s LIST", "0s WATCH resourceVersion=10", "1m30s LIST limit=1", "3m15s LIST limit=1"}},
		"failing": {func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), deny(503, "100"), h.list("10", "a@1"), h.events()}
		}, []string{"0s LIST", "0s WATCH resourceVersion=10", "1m30s LIST limit=1", "3m15s LIST", "3m15s WATCH resourceVersion=10"}},
		"was gone": {func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events(), gone, gone, h.events(), deny(429, "30"), h.list("10/more", "a@1")}
		}, []string{"0s LIST", "0s WATCH resourceVersion=10", "1m30s LIST limit=1", "1m30.6s LIST", "1m31.8s WATCH resourceVersion=10", "1m32.4s LIST limit=1", "2m3.9s LIST limit=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, listed, func(h *harness) {
				h.run(tt.script(h)...)
				h.advance(200 * time.Second)
				h.wantRequests(tt.want...)
			})
		})
	}
}

func TestMalformed(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		garbage := func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", contentType(h.enc))
			rw.Write(append(h.listBody("10", "a@1")[:30], "nonsense, nonsense, nonsense"...))
		}
		h.run(garbage, h.list("10", "a@1"), h.events())
		s := h.r.Status()
		if !errors.Is(s.Err, ErrMalformed) || !strings.Contains(s.Err.Error(), "offset") {
			t.Errorf("%s", s)
		}
		h.advance(time.Second)
		h.wantCurrent("10")
	})
}

// TestUnreadableObject checks that the reflector skips objects without a name, and stores the
// others.
func TestUnreadableObject(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10", "a@1", "@2", "c@3"), h.events("~@11", "~a@12"))
		h.wantObjects("a@12 c@3")
		if s := h.r.Status(); s.Phase != Watching || s.ResourceVersion != "12" || !errors.Is(s.Err, ErrMalformed) {
			t.Errorf("%s", s)
		}
		if s := h.r.Status(); s.Skipped != 2 || !errors.Is(s.SkippedErr, ErrMalformed) || !errors.Is(s.SkippedErr, store.ErrNoName) {
			t.Errorf("%s", s)
		}
	})
}

func TestOtherEncoding(t *testing.T) {
	withHarness(t, Config{Mode: List, Encoding: 9}, func(h *harness) {
		h.run(h.list("10", "a@1"))
		h.wantReported(ErrEncoding)
		h.wantObjects("")
	})
}

// TestDamagedOnTheWay checks that the reflector lists after a watch has sent an object that cannot
// be read, and that it reports no error after that list.
func TestDamagedOnTheWay(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10", "a@1"), h.events("~@11", "~a@12"), h.list("13", "a@12", "b@11"), h.events())
		if s := h.r.Status(); !errors.Is(s.Err, ErrMalformed) {
			t.Errorf("%s", s)
		}
		h.advance(time.Second)
		h.wantObjects("a@12 b@11")
		h.wantCurrent("13")
	})
}

// TestTranscode checks that objects in the encoding that the server supports are stored in
// Config.Encoding.
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
	withHarness(t, cfg, func(h *harness) {
		if h.enc == other {
			return
		}
		h.store = store.New(store.Config{Encoding: other})
		defer h.store.Close()
		h.r.sink = h.store.Writer(store.Scope{})
		h.run(h.list("10", "a@1", "b@2"), h.events("~a@11", "-b@12"))
		h.wantObjects("a@11")
		h.wantCurrent("12")
		a, _ := h.store.Get("n/a")
		if app, _ := a.Label("app"); app != "a" {
			t.Errorf("label %q", app)
		}
	})
}

// TestSilentWatch checks that a probe follows if a watch sends nothing for longer than a server
// waits between two bookmarks. If the server has a newer version, a watch must follow. If the probe
// fails, a list must follow.
func TestSilentWatch(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		h.run(h.list("10", "a@1"), h.events("~a@11"), h.list("11/more", "a@11"), h.list("15/more", "a@11"), h.events(), deny(503, ""), h.list("16", "a@16"), h.events())
		heard := h.r.Status().Heard
		h.advance(100 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "1m30s LIST limit=1")
		if s := h.r.Status(); s.Err != nil || s.Heard.Sub(heard) != bookmarkPeriod {
			t.Errorf("%s, heard after %v", s, s.Heard.Sub(heard))
		}
		h.advance(90 * time.Second)
		h.wantRequests("3m0s LIST limit=1", "3m0s WATCH resourceVersion=11")
		h.advance(80*time.Second + 100*time.Millisecond)
		h.wantRequests("4m30s LIST limit=1")
		h.wantReported(ErrSilent)
		h.advance(2 * time.Second)
		h.wantRequests("4m30.6s LIST", "4m30.6s WATCH resourceVersion=16")
		h.wantObjects("a@16")
		h.wantCurrent("16")
	})
}

// TestSilentAfterBookmark checks that a probe compares the server's version with the version of the
// last bookmark. It must not end a watch that is current, and must detect a server that went back
// to a version before the bookmark.
func TestSilentAfterBookmark(t *testing.T) {
	for name, tt := range map[string]struct {
		mode   Mode
		script func(h *harness) []http.HandlerFunc
	}{
		"alone": {List, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("100", "a@100"), h.events("bookmark@200")}
		}},
		"after an event": {List, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events("~a@100", "bookmark@200")}
		}},
		"of initial events": {WatchList, func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.events("+a@100", "end@100", "error@410"), h.list("200/more", "a@100"), h.events("+a@100", "end@200")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, Config{Mode: tt.mode}, func(h *harness) {
				h.run(append(tt.script(h), h.list("200/more", "a@100"), h.list("100/more", "a@100"))...)
				h.advance(10 * time.Second)
				h.wantCurrent("200")
				h.mu.Lock()
				h.requests = nil
				h.mu.Unlock()
				h.advance(100 * time.Second) // time for one probe
				h.mu.Lock()
				if n := len(h.requests); n != 1 {
					t.Errorf("a server that is there was asked %d times: %v", n, h.requests)
				}
				h.mu.Unlock()
				h.advance(100 * time.Second)
				h.wantReported(ErrServerBehind)
			})
		})
	}
}

// TestLateResponseToWatch checks that the duration of a watch is counted from its response. If the
// response arrives after half a minute and the watch then ends immediately, the watch is too short.
// So the reflector must wait before the next watch.
func TestLateResponseToWatch(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		late := func(rw http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(30 * time.Second): // in the synctest bubble
			case <-r.Context().Done():
			}
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			rw.WriteHeader(http.StatusOK)
		}
		h.run(h.list("10", "a@1"), late, late)
		h.advance(31 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "30.6s WATCH resourceVersion=10")
	})
}

// TestVersionNeverAnswered checks a server that does not respond to /version. The list must start
// after five seconds, because the version decides only the form of the list.
func TestVersionNeverAnswered(t *testing.T) {
	withHarness(t, Config{}, func(h *harness) {
		h.run(hold, h.list("10", "a@1"), h.events())
		h.advance(10 * time.Second)
		h.wantRequests("0s VERSION", "5s LIST limit=500", "5s WATCH resourceVersion=10")
		h.wantCurrent("10")
	})
}

// TestExpiredWithoutKind checks that an ERROR event with code 410 causes a list even if the Status
// has no kind.
func TestExpiredWithoutKind(t *testing.T) {
	withHarness(t, listed, func(h *harness) {
		if h.enc != wire.JSON {
			return // a Status in protobuf has no kind, because its envelope has it
		}
		h.run(h.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			rw.Write([]byte(`{"type":"ERROR","object":{"status":"Failure","message":"too old resource version","code":410}}`))
		}, h.list("20", "a@11"), h.events())
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "0s LIST", "0s WATCH resourceVersion=20")
		h.wantCurrent("20")
	})
}
