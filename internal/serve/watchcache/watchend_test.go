package watchcache

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// TestEndsBetweenEvents checks that a watch whose time ends while its client reads nothing does not
// end within an event or a gzip member.
func TestEndsBetweenEvents(t *testing.T) {
	const initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
	for name, tt := range map[string]struct {
		query string
		zip   bool
	}{
		"a state": {"", false}, "changes": {fmt.Sprintf("&resourceVersion=%d", firstVersion), false}, "compressed": {initial, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 8<<20, nil)
				defer tc.close()
				for i := range 1000 {
					tc.put("ns", fmt.Sprint("t", i), incompressible(i))
				}
				w, done := newRecorder(), make(chan struct{})
				w.block()
				r := newRequest("watch=1&timeoutSeconds=1" + tt.query)
				if tt.zip {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				go func() {
					defer close(done)
					serveList(tc.cache, w, r, "", "")
				}()
				time.Sleep(2 * time.Second)
				w.unblock()
				<-done
				body := io.Reader(&w.body)
				if tt.zip {
					if w.header.Get("Content-Encoding") != "gzip" {
						t.Fatal("it is not compressed")
					}
					var err error
					if body, err = gzip.NewReader(&w.body); err != nil {
						t.Fatal(err)
					}
				}
				whole, err := io.ReadAll(body)
				if err != nil {
					t.Fatalf("after %d bytes: %v", len(whole), err)
				}
				events, n := wire.NewWatchReader(bytes.NewReader(whole), wire.JSON, wire.Limits{}), 0
				for _, err = events.Next(); err == nil; _, err = events.Next() {
					n++
				}
				if err != io.EOF || n == 0 || n == 1000 {
					t.Errorf("%d events, and then: %v", n, err)
				}
			})
		})
	}
}

// TestCloseSendsPendingChanges checks a watch that is still sending a large change when the cache
// closes. The watch must also send the second change, which is pending.
func TestCloseSendsPendingChanges(t *testing.T) {
	for _, query := range redQueries {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 8<<20, nil)
			defer tc.close()
			w := tc.watchHeld(fmt.Sprintf("resourceVersion=%d&%s", firstVersion, query))
			synctest.Wait()
			tc.rv++
			first := thing{namespace: "ns", name: "first", color: "red", rv: tc.rv}
			large := `"spec":{"text":"` + strings.Repeat("x", 2*streamBuffer) + `",` // sending it blocks
			tc.writeRaw(bytes.Replace(first.json(), []byte(`"spec":{`), []byte(large), 1))
			synctest.Wait()
			tc.put("ns", "second", "red")
			tc.cache.Close()
			synctest.Wait()
			w.unblock()
			<-w.ended
			if got := w.events(t); len(got) != 2 {
				t.Errorf("%q: %v", query, got)
			}
		})
	}
}

// incompressible returns a text that compression barely shortens.
func incompressible(seed int) string {
	var b strings.Builder
	for i := range 10 {
		b.WriteString(uidOf(fmt.Sprint(seed), i))
	}
	return b.String()
}

// TestTooSlowIsCut checks that the cache closes the connection of a watch whose client reads the
// initial state too slowly. The cache does the same for a LIST. Otherwise half an event would
// appear to be the end of a complete body.
func TestTooSlowIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		for i := range 300 {
			tc.put("ns", fmt.Sprint("t", i), strings.Repeat("c", 20<<10))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &trickler{ResponseRecorder: httptest.NewRecorder(), pause: 2 * streamBuffer * time.Second / initialRate}
		if !tc.abandon(w, ctx, "watch=1&timeoutSeconds=36000") || tc.cache.Stats().Stalled != 1 {
			t.Errorf("%d bytes came, and then an end", w.Body.Len())
		}
	})
}
