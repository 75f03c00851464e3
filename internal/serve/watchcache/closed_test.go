package watchcache

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
)

// closing is a client. The store is closed during the client's request: after the cache has
// accepted the request, and before the cache reads the store.
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

// TestWatchOfClosedStore checks that a watch that starts just before the store is closed ends like
// any other watch: with 410 if the cache has expired, and without an error otherwise.
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

// TestListOfClosedStore checks a LIST whose state the closed store cannot return. The LIST must
// receive the same error, a 503, as a request after Close.
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
