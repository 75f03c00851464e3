package watchcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// redQueries all select the red things. The hub serves only some of these queries.
var redQueries = []string{
	"labelSelector=color%3Dred",
	"labelSelector=color+in+(red,green)",
	"fieldSelector=spec.color%3Dred",
	"fieldSelector=metadata.namespace%3Dns&labelSelector=color!%3Dblue",
	"labelSelector=color!%3Dblue",
	"fieldSelector=spec.color!%3Dblue",
}

// TestWatchesAgainstModel blocks watchers at random while objects change; the log is much too short
// for them. In the end, each client must have exactly the current red objects. A client that loses
// its connection after any event and resumes there must be able to receive every deletion that it
// still lacks.
func TestWatchesAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 1500, nil)
				defer tc.close()
				rnd := rand.New(rand.NewPCG(seed, 1))
				for i := range 8 {
					tc.put("ns", fmt.Sprint("t", i), "red")
				}
				var clients []*recorder
				for _, query := range redQueries {
					r := newRecorder()
					clients = append(clients, r)
					defer tc.watch(query, r)()
				}
				synctest.Wait()
				history := map[uint64]map[string]uint64{} // the red objects at each resourceVersion
				red := map[string]uint64{}
				for _, r := range clients {
					r.block()
				}
				for i := range 400 {
					tc.change(rnd, red)
					history[tc.rv] = cloneMap(red)
					for _, r := range clients {
						if i%25 == 24 && rnd.IntN(4) == 0 {
							r.unblock()
							synctest.Wait()
							r.block()
						}
					}
				}
				for _, r := range clients {
					r.unblock()
				}
				synctest.Wait()
				for _, r := range clients {
					events := r.events(t)
					if got := replay(t, events); fmt.Sprint(got) != fmt.Sprint(history[tc.rv]) {
						t.Fatalf("got  %v\nwant %v", got, history[tc.rv])
					}
					resumeAnywhere(t, events, history, tc)
				}
			})
		})
	}
}

func cloneMap(m map[string]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// change makes one random change and updates red accordingly.
func (tc *testCache) change(rnd *rand.Rand, red map[string]uint64) {
	if len(red) == 0 && tc.rv == firstVersion+8 {
		for i := range 8 {
			red[fmt.Sprint("ns/t", i)] = firstVersion + 1 + uint64(i)
		}
	}
	name := fmt.Sprint("t", rnd.IntN(8))
	_, there := tc.store.Get("ns/" + name)
	switch {
	case there && rnd.IntN(6) == 0:
		tc.remove("ns", name)
		delete(red, "ns/"+name)
	case rnd.IntN(2) == 0:
		red["ns/"+name] = tc.put("ns", name, "red").rv
	default:
		tc.put("ns", name, "blue")
		delete(red, "ns/"+name)
	}
}

// apply applies an event to a client's state, and returns the event's resourceVersion.
func apply(t *testing.T, state map[string]uint64, event string) uint64 {
	t.Helper()
	eventType, rest, _ := strings.Cut(event, " ")
	key, version, _ := strings.Cut(rest, "@")
	var rv uint64
	if _, err := fmt.Sscan(version, &rv); err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	_, there := state[key]
	switch {
	case eventType == "ADDED" && !there, eventType == "MODIFIED" && there:
		state[key] = rv
	case eventType == "DELETED" && there:
		delete(state, key)
	default:
		t.Fatalf("%s of an object that is there: %v", event, there)
	}
	return rv
}

func replay(t *testing.T, events []string) map[string]uint64 {
	t.Helper()
	state := map[string]uint64{}
	for _, e := range events {
		apply(t, state, e)
	}
	return state
}

// resumeAnywhere considers a client that loses its connection after any of the events, and resumes
// from its resourceVersion. It receives only changes after this resourceVersion. So it must not
// have an object that is not red at this resourceVersion or at any later one: no later change would
// delete the object.
func resumeAnywhere(t *testing.T, events []string, history map[uint64]map[string]uint64, tc *testCache) {
	t.Helper()
	state, last := map[string]uint64{}, uint64(0)
	for i, e := range events {
		last = max(last, apply(t, state, e))
		if i < 8 {
			continue // no client resumes within the initial state
		}
		for key := range state {
			stale := true
			for rv := last; rv <= tc.rv; rv++ { // red at version last or later: will be deleted
				if _, red := history[rv][key]; red {
					stale = false
					break
				}
			}
			if stale {
				t.Fatalf("after %d events, at %d, the client holds %s, which is not red from there on", i+1, last, key)
			}
		}
	}
}

// TestNotReady checks that the cache serves nothing before the first LIST has ended, and nothing
// after Close.
func TestNotReady(t *testing.T) {
	st := store.New(store.Config{Encoding: wire.JSON, KeepLog: true})
	defer st.Close()
	w := st.Writer(store.Scope{})
	c, err := New(Config{Resource: things, Store: st, Encoding: wire.JSON})
	check.NoError(t, err)
	get := func(want int) *httptest.ResponseRecorder {
		t.Helper()
		rec := httptest.NewRecorder()
		serveList(c, rec, httptest.NewRequest(http.MethodGet, "/", nil), "", "")
		check.Equal(t, rec.Code, want, "answered")
		serveGet(c, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), "a", "b")
		return rec
	}
	if rec := get(429); rec.Header().Get("Retry-After") != "1" {
		t.Error("no Retry-After")
	}
	w.BeginReplace(false)
	w.EndReplace("5")
	get(200)
	c.Close()
	get(503)
}

// TestStoreClock checks that a cache without a configured clock uses its writer's progress.
func TestStoreClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		th := tc.put("ns", "a", "red")
		bookmarked, future := newRecorder(), newRecorder()
		defer tc.watch(fmt.Sprintf("resourceVersion=%d&allowWatchBookmarks=true", th.rv), bookmarked)()
		defer tc.watch("resourceVersion=105", future)()
		tc.rv = 104
		tc.writer.Progress("104") // a bookmark from the upstream
		time.Sleep(61 * time.Second)
		synctest.Wait()
		tc.put("ns", "b", "red") // at 105
		tc.put("ns", "c", "red") // at 106
		synctest.Wait()
		if got := bookmarked.events(t); !slices.Equal(got, []string{"BOOKMARK@104", "ADDED ns/b@105", "ADDED ns/c@106"}) {
			t.Errorf("got %v", got)
		}
		if got := future.events(t); !slices.Equal(got, []string{"ADDED ns/c@106"}) {
			t.Errorf("got %v", got)
		}
		if l := tc.list("", "resourceVersion=200"); l.Code != 504 {
			t.Errorf("got %+v", l)
		}
	})
}

// TestBrokenClientAndStall checks that a WATCH ends after the first failed write to its client. It
// also checks that a failed write does not make a LIST panic.
func TestBrokenClientAndStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		tc.put("ns", "a", "red")
		w := &failingWriter{header: http.Header{}}
		r := httptest.NewRequest(http.MethodGet, "/?watch=1", nil).WithContext(context.Background())
		serveList(tc.cache, w, r, "", "") // returns although its context does not end
		check.Equal(t, w.writes, 1, "writes to a connection that is gone")
		serveList(tc.cache, w, httptest.NewRequest(http.MethodGet, "/", nil), "", "")
	})
}

type failingWriter struct {
	header http.Header
	writes int
}

func (w *failingWriter) Header() http.Header { return w.header }
func (w *failingWriter) WriteHeader(int)     {}
func (w *failingWriter) FlushError() error   { return nil }
func (w *failingWriter) Write([]byte) (int, error) {
	w.writes++
	return 0, errors.New("gone")
}

// TestInitialEventsEnd checks that the bookmark that ends the initial events follows the last of
// them. That must hold even if changes are pending, because the client reads more slowly than
// changes arrive.
func TestInitialEventsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		const things, changes = 2000, 20
		for i := range things {
			tc.put("ns", fmt.Sprintf("t%04d", i), "red")
		}
		state := tc.rv
		w := newRecorder()
		w.block()
		defer tc.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", w)()
		synctest.Wait() // the watch waits for the client
		for i := range changes {
			tc.put("ns", fmt.Sprintf("t%04d", i), "blue")
		}
		w.unblock()
		synctest.Wait()
		got := w.events(t)
		if len(got) != things+1+changes {
			t.Fatalf("%d events", len(got))
		}
		if got[things] != "BOOKMARK@"+resourceversion.Format(state) || got[things+1] != "MODIFIED ns/t0000@"+resourceversion.Format(state+1) {
			t.Errorf("behind the state come %s and %s", got[things], got[things+1])
		}
	})
}
