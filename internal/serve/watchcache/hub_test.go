package watchcache

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestInterests checks which selectors the hub serves, and by which requirement.
func TestInterests(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	for _, tt := range []struct {
		namespace, query string
		want             *interest // nil: the hub does not serve the selector
	}{
		{"", "", nil},
		{"", "labelSelector=color!%3Dred", nil},
		{"", "labelSelector=color", nil},
		{"", "fieldSelector=spec.color!%3Dred", nil},
		{"", "fieldSelector=metadata.name!%3Da", nil},
		{"ns", "", &interest{values: []interestValue{{byNamespace, "", "ns"}}, namespace: "ns"}},
		{"", "fieldSelector=metadata.namespace%3Dns", &interest{values: []interestValue{{byNamespace, "", "ns"}}, namespace: "ns"}},
		{"", "fieldSelector=metadata.name%3Da", &interest{values: []interestValue{{byName, "", "a"}}}},
		{"ns", "fieldSelector=metadata.name%3Da", &interest{values: []interestValue{{byKey, "", "ns/a"}}, namespace: "ns"}},
		{"", "fieldSelector=metadata.name%3Da,metadata.name%3Db", &interest{}},
		{"", "fieldSelector=spec.color%3Dred", &interest{values: []interestValue{{byField, "spec.color", "red"}}}},
		{"", "fieldSelector=spec.color%3D", &interest{values: []interestValue{{byField, "spec.color", ""}}}},
		{"ns", "fieldSelector=spec.color!%3Dred", &interest{values: []interestValue{{byNamespace, "", "ns"}}, namespace: "ns"}},
		{"ns", "fieldSelector=spec.color%3Dred&labelSelector=color%3Dred",
			&interest{values: []interestValue{{byField, "spec.color", "red"}}, namespace: "ns"}},
		{"", "labelSelector=x,color%3Dred", &interest{values: []interestValue{{byLabel, "color", "red"}}}},
		{"", "labelSelector=color+in+(red,blue)", &interest{values: []interestValue{{byLabel, "color", "blue"}, {byLabel, "color", "red"}}}},
	} {
		q, err := url.ParseQuery(tt.query)
		check.NoError(t, err)
		p, err := request.ParseOptions(q)
		check.NoError(t, err)
		sel, err := tc.cache.newSelector(tt.namespace, "", p)
		check.NoError(t, err)
		got, ok := sel.interest(tc.cache)
		slices.SortFunc(got.values, func(a, b interestValue) int { return cmp.Compare(a.value, b.value) })
		if ok != (tt.want != nil) || ok && !reflect.DeepEqual(got, *tt.want) {
			t.Errorf("%s %s: %+v %v", tt.namespace, tt.query, got, ok)
		}
	}
	clustered := newTestCache(t, 0, func(cfg *Config) { cfg.Resource.Namespaced = false })
	defer clustered.close()
	sel, err := clustered.cache.newSelector("", "a", &request.Options{})
	check.NoError(t, err)
	// The resource is cluster-scoped, so the name is the key.
	if got, ok := sel.interest(clustered.cache); !ok || got.values[0] != (interestValue{byKey, "", "a"}) {
		t.Errorf("%+v %v", got, ok)
	}
}

// TestWokenOnlyByMatchingChanges checks that the hub does not wake a watcher for changes of other
// objects. The watcher receives changes of objects that match, or matched before, and its
// bookmarks.
func TestWokenOnlyByMatchingChanges(t *testing.T) {
	for _, query := range []string{
		"labelSelector=color%3Dred", "labelSelector=color+in+(red,pink)", "fieldSelector=spec.color%3Dred",
		"fieldSelector=spec.color%3Dred,metadata.namespace%3Dns",
	} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 0, nil)
				defer tc.close()
				tc.put("ns", "a", "red")
				r := newRecorder()
				defer tc.watch(query+"&allowWatchBookmarks=true", r)()
				synctest.Wait()
				flushes := r.flushed()
				for i := range 100 {
					tc.put("ns", fmt.Sprint("b", i%10), "blue")
					synctest.Wait()
				}
				check.Equal(t, r.flushed()-flushes, 0, "woken times")
				want := []string{"ADDED ns/a@101"}
				if strings.Contains(fmt.Sprint(r.events(t)), "BOOKMARK") {
					want = append(want, "BOOKMARK@101") // ends the initial events
				}
				tc.put("ns", "b1", "red")
				tc.put("ns", "a", "red")
				tc.put("ns", "b1", "blue")
				tc.remove("ns", "a")
				tc.remove("ns", "b2")
				want = append(want, "ADDED ns/b1@202", "MODIFIED ns/a@203", "DELETED ns/b1@204", "DELETED ns/a@205")
				synctest.Wait()
				if got := r.events(t); !slices.Equal(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
				tc.put("ns", "c", "blue")
				time.Sleep(61 * time.Second)
				synctest.Wait()
				if got := r.events(t); got[len(got)-1] != "BOOKMARK@207" {
					t.Errorf("got %v", got)
				}
				if st := tc.cache.Stats(); st.Selective != 1 || tc.cache.counters.watchers.Load() != 1 || st.Lag != 0 || st.Events < 4 || st.Bookmarks == 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestNotWokenByOtherNamespaces checks a watcher whose selector requires one namespace and a value
// of a field. Changes in other namespaces must not wake it, even if their objects have that value.
func TestNotWokenByOtherNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		r := newRecorder()
		defer tc.watch("fieldSelector=metadata.namespace%3Dns,spec.color%3Dred", r)()
		synctest.Wait()
		flushes := r.flushed()
		tc.put("other", "a", "red")
		tc.remove("other", "a")
		synctest.Wait()
		check.Equal(t, r.flushed()-flushes, 0, "woken times")
		tc.put("ns", "a", "red")
		synctest.Wait()
		check.Equal(t, r.flushed()-flushes, 1, "woken times")
	})
}

// TestLateSubscription checks a hub watcher whose client does not read for a while. After maxQueued
// changes wait, the watcher's queue keeps one change per key. When the client reads again, it
// receives the current state.
func TestLateSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		for i := range 5 {
			tc.put("ns", fmt.Sprint("t", i), "red")
		}
		r := newRecorder()
		defer tc.watch("labelSelector=color%3Dred", r)()
		synctest.Wait()
		before := len(r.events(t))
		r.block()
		for i := range 10 * maxQueued {
			tc.put("ns", fmt.Sprint("t", i%5), "red")
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		tc.put("ns", "t1", "blue")
		tc.remove("ns", "t2")
		synctest.Wait()
		if lag := tc.cache.Stats().Lag; lag > maxQueued+5 {
			t.Errorf("%d changes are kept for five keys", lag)
		}
		r.unblock()
		synctest.Wait()
		events := r.events(t)
		if n := len(events) - before; n > 2*batch+maxQueued+10 {
			t.Errorf("%d events for five keys", n)
		}
		if held := replay(t, slices.DeleteFunc(events, isBookmark)); len(held) != 3 || held["ns/t0"] != firstVersion+5+10*maxQueued-4 {
			t.Errorf("the client holds %v", held)
		}
		if tc.cache.Stats().CaughtUp == 0 {
			t.Error("no watcher was caught up: the test shows nothing")
		}
	})
}

// TestLateHub checks that a subscription receives the hub's backlog as a whole, with one change per
// key.
func TestLateHub(t *testing.T) {
	tc := newTestCache(t, 1000, nil)
	defer tc.close()
	h := &tc.cache.hub
	sub := tc.subscribe(interest{values: []interestValue{{byLabel, "color", "red"}}})
	defer sub.Close()
	h.mu.Lock()
	for i := range 100 {
		tc.put("ns", fmt.Sprint("t", i%5), "red")
	}
	h.backlogLock.RLock() // a watcher is taking changes
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		h.dispatch()
	}()
	check.Equal(t, sub.lag(), 0, "changes came although the gate is held")
	h.backlogLock.RUnlock()
	<-pumped
	h.mu.Unlock()
	if sub.Pending() == 0 {
		t.Error("nothing is late")
	}
	seen := map[string]int{}
	taken := make([]store.Change, 2)
	for n := sub.Next(taken); n > 0; n = sub.Next(taken) {
		for i := range taken[:n] {
			seen[taken[i].Key()]++
		}
	}
	if len(seen) != 5 || seen["ns/t0"] != 1 {
		t.Errorf("got %v", seen)
	}
}

// TestExpireLaggingWatchers checks that ExpireLate expires a watcher that has fallen behind the
// log, and no watcher that keeps up.
func TestExpireLaggingWatchers(t *testing.T) {
	for _, query := range []string{"", "labelSelector=color%3Dred", "labelSelector=color!%3Dblue"} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 2000, func(cfg *Config) { cfg.ExpireLate = true })
			defer tc.close()
			late, good := newRecorder(), newRecorder()
			from := fmt.Sprintf("&resourceVersion=%d", tc.rv)
			defer tc.watch(query+from, late)()
			defer tc.watch(query+from, good)()
			synctest.Wait()
			late.block()
			for i := range 4 * maxQueued {
				tc.put("ns", fmt.Sprint("t", i%5), "red")
				synctest.Wait()
			}
			late.unblock()
			synctest.Wait()
			if got := late.events(t); len(got) > 2*batch || got[len(got)-1] != "ERROR 410" {
				t.Errorf("%s: %d events, the last %s", query, len(got), got[len(got)-1])
			}
			if got := good.events(t); len(got) != 4*maxQueued {
				t.Errorf("%s: %d events", query, len(got))
			}
			if st := tc.cache.Stats(); st.Expired != 1 || tc.cache.counters.watchers.Load() != 1 {
				t.Errorf("%s: %+v", query, st)
			}
		})
	}
}

func isBookmark(e string) bool { return strings.HasPrefix(e, "BOOKMARK") }

// TestStoreEndsHubWatch checks that the hub's watches end when the store is closed.
func TestStoreEndsHubWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			serveList(tc.cache, newRecorder(), newRequest("watch=1&labelSelector=color%3Dred"), "", "")
		}()
		synctest.Wait()
		tc.store.Close()
		<-done
		late := newRecorder() // a watch that starts later ends immediately
		serveList(tc.cache, late, newRequest("watch=1&labelSelector=color%3Dred"), "", "")
	})
}

// TestHubWithBadObject checks that an unreadable object is an error only for the watchers that must
// read it.
func TestHubWithBadObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		byColor, byNames := newRecorder(), newRecorder()
		defer tc.watch("fieldSelector=spec.color%3Dred", byColor)()
		defer tc.watch("fieldSelector=metadata.name%3Da", byNames)()
		synctest.Wait()
		tc.rv++
		tc.writeRaw(fmt.Appendf(nil, `{"metadata":{"name":"bad","namespace":"ns","uid":"u","resourceVersion":"%d"},"spec":{"color"`, tc.rv))
		tc.put("ns", "a", "blue")
		synctest.Wait()
		if got := byColor.events(t); !slices.Equal(got, []string{"ERROR 500"}) {
			t.Errorf("got %v", got)
		}
		if got := byNames.events(t); !slices.Equal(got, []string{"ADDED ns/a@102"}) {
			t.Errorf("got %v", got)
		}
	})
}

var _ changeSource = (*cursorSource)(nil)

// TestEndsOfLateWatchers checks the resourceVersions of DELETED events while a late watcher is
// caught up. An event has the resourceVersion that the client already has, or the one at which the
// object stopped matching. A higher resourceVersion would claim changes that the client has not
// received.
func TestEndsOfLateWatchers(t *testing.T) {
	for _, query := range []string{"labelSelector=color%3Dred", "labelSelector=color!%3Dblue"} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 2000, nil)
			defer tc.close()
			for i := range 5 {
				tc.put("ns", fmt.Sprint("t", i), "red")
			}
			r := newRecorder()
			defer tc.watch(query, r)()
			tc.put("ns", "other", "blue") // the client does not receive this change
			synctest.Wait()
			r.block()
			for i := range 10 * maxQueued {
				tc.put("ns", fmt.Sprint("t", i%5), "red")
				tc.put("ns", "other", "blue")
				synctest.Wait()
			}
			tc.put("ns", "t1", "blue")
			left := tc.rv
			tc.put("ns", "t3", "red")
			r.unblock()
			synctest.Wait()
			newest, ends := uint64(0), 0
			for _, e := range r.events(t) {
				_, version, _ := strings.Cut(e, "@")
				rv, err := strconv.ParseUint(version, 10, 64)
				if err != nil {
					t.Fatal(e, err)
				}
				if strings.HasPrefix(e, "DELETED") {
					if ends++; rv > newest && rv != left {
						t.Errorf("%s: %s, and the client has %d", query, e, newest)
					}
				}
				newest = max(newest, rv)
			}
			if ends != 1 || tc.cache.Stats().CaughtUp == 0 {
				t.Errorf("%s: %d ends, %+v", query, ends, tc.cache.Stats())
			}
		})
	}
}
