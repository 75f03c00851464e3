package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
)

// serveFrom answers a read from a cache.
func serveFrom(c *watchcache.Cache, w http.ResponseWriter, r *http.Request) {
	rq, err := request.Parse(r)
	if err != nil {
		watchcache.WriteError(w, r, err)
		return
	}
	c.Serve(w, r, rq)
}

func (s *testFeed) get(query string) *bytes.Buffer {
	w := httptest.NewRecorder()
	serveFrom(s.cache, w, httptest.NewRequest(http.MethodGet, "/api/v1/pods?"+query, nil))
	return w.Body
}

// watch returns the events that a WATCH from a resourceVersion sends within a second, as "TYPE
// uid@resourceVersion".
func (s *testFeed) watch(from uint64) (events []string) {
	s.t.Helper()
	body := s.get(fmt.Sprintf("watch=1&timeoutSeconds=1&resourceVersion=%d", from))
	r := wire.NewWatchReader(body, wire.JSON, wire.Limits{})
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		var object struct {
			Code     int
			Metadata struct{ UID, ResourceVersion string }
		}
		check.NoError(s.t, json.Unmarshal(e.Object, &object))
		if e.Type == wire.Error {
			events = append(events, fmt.Sprint("ERROR ", object.Code))
		} else {
			events = append(events, fmt.Sprintf("%v %s@%s", e.Type, object.Metadata.UID, object.Metadata.ResourceVersion))
		}
	}
	return events
}

// listed returns the resourceVersion of a LIST at any version.
func (s *testFeed) listed() (rv uint64) {
	s.t.Helper()
	var l struct {
		Metadata struct {
			ResourceVersion uint64 `json:",string"`
		}
	}
	check.NoError(s.t, json.Unmarshal(s.get("resourceVersion=0").Bytes(), &l))
	return l.Metadata.ResourceVersion
}

func (s *testFeed) relist(at string, objects ...func() error) {
	s.t.Helper()
	s.BeginReplace(false)
	for _, put := range objects {
		check.NoError(s.t, put())
	}
	s.EndReplace(at)
}

// object returns a function that adds an object of a relist.
func (s *testFeed) object(name, uid string, rv, size int) func() error {
	return func() error { return s.putAs(0, name, uid, rv, size) }
}

// TestRelistSendsDeletionsOnce checks that a watch from a version before a relist first sends the
// deletions that the relist found. A watch from the list's version must send none of them, because
// its client may already have a new object with the same key.
func TestRelistSendsDeletionsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestFeed(t, 0)
		s.relist("12", s.object("a", "a-again", 12, 0), s.object("c", "u-c", 10, 0))
		if got, want := s.watch(5), []string{"DELETED u-b@5", "DELETED u-a@5", "ADDED u-c@10", "ADDED a-again@12"}; !slices.Equal(got, want) {
			t.Errorf("from before: %v, want %v", got, want)
		}
		if got := s.watch(10); !slices.Equal(got, []string{"ERROR 410"}) {
			t.Errorf("from the middle of what the relist brought: %v", got)
		}
		for range 2 {
			if got := s.watch(12); len(got) > 0 {
				t.Errorf("from the list's version: %v", got)
			}
		}
		check.NoError(t, s.put(wire.Modified, "c", 14, 0))
		if got := s.watch(12); !slices.Equal(got, []string{"MODIFIED u-c@14"}) {
			t.Errorf("from the list's version, later: %v", got)
		}
	})
}

// TestListedVersionCanBeWatched checks that a WATCH can start at the version of a LIST, even with a
// very short log.
func TestListedVersionCanBeWatched(t *testing.T) {
	for name, do := range map[string]func(*testFeed){
		"relist":            func(s *testFeed) { s.relist("12", s.object("a", "a-again", 12, 0), s.object("c", "u-c", 10, 0)) },
		"relist, none left": func(s *testFeed) { s.relist("12") },
		"relist of other bytes under the same version": func(s *testFeed) { s.relist("5", s.object("a", "u-a", 1, 9), s.object("b", "u-b", 2, 9)) },
		"relist that broke off": func(s *testFeed) {
			s.BeginReplace(false)
			check.NoError(t, s.object("a", "u-a", 1, 9)())
			s.AbortReplace()
		},
		"two changes of one version": func(s *testFeed) {
			for _, name := range []string{"c", "d"} {
				check.NoError(t, s.put(wire.Added, name, 7, 0))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestFeed(t, 1)
				do(s)
				if got := s.watch(s.listed()); len(got) > 0 {
					t.Errorf("from the version of a LIST: %v", got)
				}
			})
		})
	}
}

// TestLargeObjects checks that a resumed watch and an exact LIST find objects that are so large
// that the store applies each of them immediately.
func TestLargeObjects(t *testing.T) {
	const large = 300 << 10
	for _, logBytes := range []int64{0, 1} { // 1: the log is too short for any earlier state
		synctest.Test(t, func(t *testing.T) {
			s := newTestFeed(t, logBytes) // at 5
			for rv := 6; rv <= 8; rv++ {
				check.NoError(t, s.put(wire.Modified, "a", rv, large))
			}
			if got := s.watch(8); len(got) > 0 {
				t.Errorf("log of %d: from now: %v", logBytes, got)
			}
			got := s.watch(7)
			if want := []string{"MODIFIED u-a@8"}; !slices.Equal(got, want) && (logBytes == 0 || !slices.Equal(got, []string{"ERROR 410"})) {
				t.Errorf("log of %d: from 7: %v", logBytes, got)
			}
			exact := s.get("resourceVersion=7&resourceVersionMatch=Exact").String()
			if !strings.Contains(exact, `"resourceVersion":"7"},"data":"xxx`) && (logBytes == 0 || !strings.Contains(exact, `"code":410`)) {
				t.Errorf("log of %d: the state of 7: %.300s", logBytes, exact)
			}
		})
	}
}
