package watchcache

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// leaver is a client that disconnects when it receives the first byte. Its Write still accepts all
// bytes, because an intermediate proxy or the kernel would accept them.
type leaver struct {
	http.ResponseWriter
	leave  func()
	writes int
}

func (l *leaver) Write(p []byte) (int, error) {
	l.leave()
	l.writes++
	return len(p), nil
}

// abandon sends a LIST and reports whether the cache closed its connection.
func (tc *testCache) abandon(w http.ResponseWriter, ctx context.Context, query string) (cut bool) {
	tc.t.Helper()
	defer func() {
		switch err := recover(); err {
		case nil:
		case http.ErrAbortHandler:
			cut = true
		default:
			panic(err)
		}
	}()
	serveList(tc.cache, w, httptest.NewRequest(http.MethodGet, "/?"+query, nil).WithContext(ctx), "", "")
	return false
}

// TestAbandonedList checks that a LIST stops writing when its client disconnects, and that a LIST
// that has not started to write stops selecting objects.
func TestAbandonedList(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	const many, long = 4000, 1000
	for i := range many {
		tc.put("ns", fmt.Sprint("t", i), strings.Repeat("c", long))
	}
	for _, accept := range []string{"application/json", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1"} {
		ctx, cancel := context.WithCancel(t.Context())
		w := &leaver{ResponseWriter: httptest.NewRecorder(), leave: cancel}
		r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
		r.Header.Set("Accept", accept)
		cut := func() (cut bool) {
			defer func() { cut = recover() != nil }()
			serveList(tc.cache, w, r, "", "")
			return false
		}()
		if w.writes != 1 || !cut {
			t.Errorf("%s: %d writes, cut %v", accept, w.writes, cut)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := tc.cache.Stats().Indexes[0].Fetched
	w := httptest.NewRecorder()
	if !tc.abandon(w, ctx, "fieldSelector=spec.color%3Dnone") || w.Body.Len() > 0 {
		t.Errorf("it is answered: %.200s", w.Body)
	}
	if n := tc.cache.Stats().Indexes[0].Fetched - before; n > many/10 {
		t.Errorf("%d of %d objects were looked at", n, many)
	}
}
