package watchcache

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
)

// closing is a client during whose request the store is closed: after the cache has taken the request,
// and before it has looked at the store.
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

// TestWatchOfClosedStore: a watch that began just before the store was closed ends as all others do,
// with 410 if the cache has expired, and without an error if it has not.
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
				s := newSource(t, 1<<20, nil)
				defer s.close()
				s.put("ns", "early", "blue")
				c := &closing{recorder: newRecorder(), close: func() {
					if s.store.Close(); expires {
						s.cache.Expire()
					}
				}}
				stop := s.watch(query, c)
				synctest.Wait()
				s.cache.Close()
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

// TestListOfClosedStore: a list of a state that a closed store cannot give any more is refused as one
// that comes later is.
func TestListOfClosedStore(t *testing.T) {
	s := newSource(t, 1<<20, nil)
	defer s.close()
	s.put("ns", "early", "blue")
	s.put("ns", "late", "blue")
	s.store.Close()
	w := httptest.NewRecorder()
	s.cache.ServeList(w, httptest.NewRequest(http.MethodGet, "/?resourceVersionMatch=Exact&resourceVersion=101", nil), "", "")
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
