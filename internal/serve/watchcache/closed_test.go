package watchcache

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
)

// closing is a client during whose request the store is closed: after the cache has taken the
// request, and before it has looked at the store.
type closing struct {
	*recorder
	close func()
}

func (c *closing) Header() http.Header {
	if do := c.close; do != nil {
		c.close = nil
		do()
	}
	return c.recorder.Header()
}

// TestWatchOfClosedStore: a watch that began just before the store was closed ends as all others
// do, with 410 if the cache has expired, and without an error if it has not.
func TestWatchOfClosedStore(t *testing.T) {
	for _, query := range []string{
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&fieldSelector=spec.color%3Dred",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&labelSelector=color!%3Dblue",
		"resourceVersion=100",
		"resourceVersion=101",
		"resourceVersion=0&fieldSelector=spec.color%3Dred",
		"resourceVersion=0&labelSelector=color!%3Dblue",
		"",
	} {
		for _, expires := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 1<<20, nil)
				defer tc.close()
				tc.put("ns", "early", "blue")
				c := &closing{recorder: newRecorder(), close: func() {
					if tc.store.Close(); expires {
						tc.cache.Expire()
					}
				}}
				stop := tc.watch(query, c)
				synctest.Wait()
				tc.cache.Close()
				defer stop()
				synctest.Wait()
				got := slices.DeleteFunc(c.events(t), func(e string) bool { return e == "ADDED ns/early@101" })
				var want []string
				if expires {
					want = []string{"ERROR 410"}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%q, expires %v: told %q, not %q", query, expires, got, want)
				}
			})
		}
	}
}

// TestListOfClosedStore: a list of a state that a closed store cannot give any more is refused as
// one that comes later is.
func TestListOfClosedStore(t *testing.T) {
	tc := newTestCache(t, 1<<20, nil)
	defer tc.close()
	tc.put("ns", "early", "blue")
	tc.put("ns", "late", "blue")
	tc.store.Close()
	w := httptest.NewRecorder()
	serveList(tc.cache, w, httptest.NewRequest(http.MethodGet, "/?resourceVersionMatch=Exact&resourceVersion=101", nil), "", "")
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
