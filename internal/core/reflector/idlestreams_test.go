package reflector

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// idleFor returns a watch that sends nothing and ends after d: normally, or because the connection
// breaks.
func (h *harness) idleFor(d time.Duration, clean bool) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", watchContentType(h.enc))
		rw.(http.Flusher).Flush()
		select {
		case <-time.After(d): // in the synctest bubble
		case <-r.Context().Done():
		}
		if !clean {
			panic(http.ErrAbortHandler)
		}
	}
}

// TestIdleStreamsAreEnded checks the reflector behind a proxy that ends idle streams after 5 s.
// Each watch must follow the last one immediately, with only probes in between. There must be no
// relist, and Status.Err must remain nil.
func TestIdleStreamsAreEnded(t *testing.T) {
	for name, clean := range map[string]bool{"ended": true, "cut": false} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, Config{Mode: List}, func(h *harness) {
				watch, probe := h.idleFor(5*time.Second, clean), h.list("10/more", "a@1")
				h.server = func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Has("watch") {
						watch(rw, r)
					} else {
						probe(rw, r)
					}
				}
				h.run(h.list("10", "a@1"))
				h.advance(17 * time.Second)
				h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "5s WATCH resourceVersion=10", "5.6s LIST limit=1",
					"10s WATCH resourceVersion=10", "10.6s LIST limit=1", "15s WATCH resourceVersion=10", "15.6s LIST limit=1")
				h.advance(10 * time.Minute)
				h.mu.Lock()
				defer h.mu.Unlock()
				for _, s := range h.statuses {
					if s.Err != nil || s.Relists > 0 {
						t.Fatalf("%s", s)
					}
				}
			})
		})
	}
}

// TestSilentStreamsAreEnded checks the reflector behind a proxy that ends idle streams in a busy
// cluster, where each probe finds a newer version. If the resource does not change, the bookmark of
// a short watch must show that watches work. In that case no list may follow, and CurrentAt must
// not become older than 90 s plus the time after which streams end. If the network loses everything
// that the server sends on watches, lists must follow, at least four in 72 minutes.
func TestSilentStreamsAreEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		after     time.Duration
		swallowed bool
	}{
		"quiet, 2s": {after: 2 * time.Second}, "quiet, 5s": {after: 5 * time.Second}, "quiet, 50s": {after: 50 * time.Second},
		"swallowed, 2s": {2 * time.Second, true}, "swallowed, 50s": {50 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, Config{Mode: List}, func(h *harness) {
				idle := h.idleFor(tt.after, true)
				now := func() string { return strconv.Itoa(10 + int(time.Since(h.began).Seconds())) }
				h.server = func(rw http.ResponseWriter, r *http.Request) {
					q := r.URL.Query()
					early, _ := time.ParseDuration(q.Get("timeoutSeconds") + "s")
					switch early -= 2 * time.Second; {
					case !q.Has("watch") && tt.swallowed:
						h.list(now(), "a@"+now())(rw, r)
					case !q.Has("watch"):
						h.list(now(), "a@1")(rw, r)
					case early < tt.after && !tt.swallowed:
						rw.Header().Set("Content-Type", watchContentType(h.enc))
						rw.(http.Flusher).Flush()
						time.Sleep(early)
						rw.Write(h.event("bookmark@" + now()))
					default:
						idle(rw, r)
					}
				}
				h.run()
				for range 12 {
					h.advance(6 * time.Minute)
					s := h.r.Status()
					if age := time.Since(s.CurrentAt); !tt.swallowed && (s.Relists > 0 || age > bookmarkPeriod+tt.after || s.Err != nil) {
						h.t.Fatalf("%d lists, current %v ago, %v", s.Relists, age, s.Err)
					}
				}
				if n := h.r.Status().Relists; tt.swallowed && n < 4 {
					h.t.Errorf("%d lists in 72 minutes", n)
				}
			})
		})
	}
}

// TestSlowProbes checks that the numbers of watches and lists are limited behind a proxy that ends
// idle streams. The server sends no bookmarks, and its responses to probes take longer than a
// proving watch (see machine.proves). The reflector must not send proving watches one after
// another. It must still list, because of the responses to earlier probes.
func TestSlowProbes(t *testing.T) {
	for name, tt := range map[string]struct {
		code    int
		watches int32
		lists   int
	}{
		"answered": {http.StatusOK, 240, 9}, "failing": {http.StatusInternalServerError, 240, 36},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, Config{Mode: List}, func(h *harness) {
				var watches atomic.Int32
				h.server = func(rw http.ResponseWriter, r *http.Request) {
					q := r.URL.Query()
					switch now := strconv.Itoa(10 + int(time.Since(h.began).Seconds())); {
					case q.Get("timeoutSeconds") == "3":
						watches.Add(1)
						h.idleFor(3*time.Second, true)(rw, r)
					case q.Has("watch"):
						watches.Add(1)
						h.idleFor(50*time.Second, true)(rw, r)
					case q.Get("limit") == "1" && tt.code != http.StatusOK:
						rw.WriteHeader(tt.code)
					case q.Get("limit") == "1":
						select {
						case <-time.After(5 * time.Second):
						case <-r.Context().Done():
						}
						fallthrough
					default:
						h.list(now, "a@1")(rw, r)
					}
				}
				h.run()
				h.advance(2 * time.Hour)
				if n := h.r.Status().Relists; n < 4 || n > tt.lists || watches.Load() > tt.watches {
					h.t.Errorf("%d lists and %d watches in two hours", n, watches.Load())
				}
			})
		})
	}
}

// TestJoinedVersions checks a ListerWatcher whose resourceVersion is a text that joins the versions
// of several lists. The text changes when any of these versions changes. When a watch has ended,
// the reflector must watch again without a probe or a list. Over hours, it must send few lists.
func TestJoinedVersions(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		watch := h.idleFor(5*time.Second, true)
		h.server = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("watch") {
				watch(rw, r)
				return
			}
			now := strconv.Itoa(112 + int(time.Since(h.began).Seconds()))
			h.list(now+"-"+now, "a@1")(rw, r)
		}
		h.run(h.list("112-112", "a@1"))
		h.advance(17 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=112-112", "5s WATCH resourceVersion=112-112",
			"10s WATCH resourceVersion=112-112", "15s WATCH resourceVersion=112-112")
		h.advance(6 * time.Hour)
		h.mu.Lock()
		defer h.mu.Unlock()
		// The first four lists follow soon, because a restored server may be the reason that a watch is
		// silent. Later lists are rarer.
		if n := len(h.requests); h.r.Status().Relists > 4+3+6*60/50 || n > 6*3600/5*5/4 {
			t.Errorf("%d requests and %d lists in six hours", n, h.r.Status().Relists)
		}
	})
}

// TestEmptyWatchesForLong counts the lists of a resource that does not change for a day, behind
// proxies that end idle streams after different times. The number of lists must not depend on the
// number of watches. It must depend on the total time in which watches have sent nothing, and on a
// Config.WatchTimeout that is longer than the default.
func TestEmptyWatchesForLong(t *testing.T) {
	const lasted = 24 * time.Hour
	for _, tt := range []struct {
		after, timeout time.Duration
		lists          int // the lists after the first one
	}{
		{time.Second, 0, 28}, {5 * time.Second, 0, 28}, {time.Minute, 0, 28}, {7 * time.Minute, 0, 25}, {3 * time.Second, 3 * time.Second, 28},
		{time.Minute, time.Hour, 2}, {90 * time.Minute, time.Hour, 2},
	} {
		cfg := Config{Mode: List, WatchTimeout: tt.timeout}.withDefaults()
		s := newState(&cfg, "")
		lists := countLists(t, s, []input{{typ: inOpened}, {typ: inEnded, after: tt.after}}, lasted)
		if lists-1 != tt.lists {
			t.Errorf("%d lists in a day where streams end after %v of %v, want %d", lists-1, tt.after, cfg.WatchTimeout, tt.lists)
		}
	}
}

// TestIdleWatchPinsNoBuffer checks that a waiting watch does not keep the buffer of its last
// object, which was as large as the object.
func TestIdleWatchPinsNoBuffer(t *testing.T) {
	const size = int64(2 << 20)
	// Without Keep, the store would keep the object's bytes.
	configs := []Config{{Mode: List, Keep: func(m *wire.Meta) bool { return string(m.Name) != "large" }}}
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		drop, err := wire.CompileDrop(enc, reflect.TypeFor[corev1.Pod](), "metadata.labels")
		check.NoError(t, err)
		configs = append(configs, Config{Mode: List, Drop: drop})
	}
	for _, cfg := range configs {
		idle(t, cfg, size)
	}
}

// idle checks that no buffer remains in use after a watch has received an object of the given size.
func idle(t *testing.T, cfg Config, size int64) {
	withHarness(t, cfg, func(h *harness) {
		if cfg.Drop != nil && cfg.Drop.Encoding() != h.enc {
			return
		}
		h.run(h.list("10"), func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", watchContentType(h.enc))
			rw.Write(h.event("+small@11"))
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
			rw.Write(h.event("+large@12=" + strings.Repeat("x", int(size))))
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		h.wantCurrent("11")
		stored := func() int64 { m := h.store.Memory(); return m.Packed + m.Log }
		before := testenv.LiveBytes() - stored()
		h.advance(2 * time.Second)
		h.wantCurrent("12")
		if held := testenv.LiveBytes() - stored(); held > before+size/2 {
			t.Errorf("%d bytes are held while the watch waits, and %d before its last object came", held, before)
		}
	})
}

// TestWatchTimeout checks that the timeout in the request of a watch is in whole seconds and not
// lower than WatchTimeout. If it were rounded to 0, the server would use its own default.
func TestWatchTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]string{500 * time.Millisecond: "1", 1300 * time.Millisecond: "2", time.Minute: "90"} {
		withHarness(t, Config{Mode: List, WatchTimeout: timeout}, func(h *harness) {
			var got string
			h.run(h.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
				got = r.URL.Query().Get("timeoutSeconds")
				h.events()(rw, r)
			})
			h.wantCurrent("10")
			check.Equal(t, got, want, "%v: timeoutSeconds=", timeout)
		})
	}
}
