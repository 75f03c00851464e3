package watchcache

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/testing/check"
)

// unread is a client that reads nothing until read is closed.
type unread struct {
	*httptest.ResponseRecorder
	read   chan struct{}
	writes func() // called by the first write
}

func (w *unread) Write(p []byte) (int, error) {
	w.writes()
	<-w.read
	return w.ResponseRecorder.Write(p)
}

// putLarge writes a thing of about size bytes, which contains its color twice.
func (tc *testCache) putLarge(name string, size int) {
	tc.t.Helper()
	tc.put("ns", name, strings.Repeat("x", size/2))
}

// getUnread starts n GETs of an object, whose clients read nothing until read is closed. It waits
// until the cache has started to write each response.
func (tc *testCache) getUnread(ctx context.Context, name string, n int, read chan struct{}) (codes func() []int) {
	tc.t.Helper()
	var wg, begun sync.WaitGroup
	all := make([]int, n)
	for i := range n {
		begun.Add(1)
		wg.Go(func() {
			w := &unread{httptest.NewRecorder(), read, sync.OnceFunc(begun.Done)}
			serveGet(tc.cache, w, httptest.NewRequest(http.MethodGet, "/?resourceVersion=0", nil).WithContext(ctx), "ns", name)
			all[i] = w.Code
		})
	}
	begun.Wait()
	return func() []int { wg.Wait(); return all }
}

// TestUnreadGets checks that concurrent GETs of a large object share its bytes while their clients
// do not read.
func TestUnreadGets(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	const size, gets = 1 << 20, 64
	tc.putLarge("a", size)
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, read := used(), make(chan struct{})
	codes := tc.getUnread(t.Context(), "a", gets, read)
	if more := used() - before; more > gets*size/8 {
		t.Errorf("%d GETs of %d bytes take %d", gets, size, more)
	}
	close(read)
	for _, code := range codes() {
		if code != http.StatusOK {
			t.Error(code)
		}
	}
	check.Equal(t, len(tc.cache.bodies.open), 0, "a body is left")
}

// TestEncodePanics checks that a GET that panics while it encodes a body leaves no charge. The GETs
// that wait for that body receive an error, and the next GET encodes the body.
func TestEncodePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []int{shareAbove / 4, 2 * shareAbove} {
			tc := newTestCache(t, 0, nil)
			tc.putLarge("a", size)
			st, err := tc.cache.stateNotOlderThan(t.Context(), 0)
			check.NoError(t, err)
			o, ok := st.sn.Get("ns/a")
			if !ok {
				t.Fatal("no object")
			}
			b := budget.New(8<<20, budget.Level{Name: "known"})
			p, k := &Payer{Budget: b, Share: "jane"}, encodeKey{object: o}
			var sb sharedBodies
			begun, fail := make(chan struct{}), make(chan struct{})
			go func() {
				defer func() { _ = recover() }()
				_, _, _ = sb.get(k, p, func() ([]byte, error) { close(begun); <-fail; panic("a bug") })
			}()
			<-begun
			body := func() ([]byte, error) {
				body, release, err := sb.get(k, p, func() ([]byte, error) { return []byte("whole"), nil })
				if err == nil {
					release()
				}
				return body, err
			}
			shared := make(chan error, 1)
			go func() {
				got, err := body()
				if err == nil && string(got) != "whole" {
					err = fmt.Errorf("a body of %d bytes without an error", len(got))
				} else if apierrors.IsInternalError(err) {
					err = nil
				}
				shared <- err
			}()
			close(fail)
			if err := <-shared; err != nil {
				t.Error(size, err)
			}
			synctest.Wait()
			if got, err := body(); string(got) != "whole" || err != nil {
				t.Errorf("%d: after a panic: %q, %v", size, got, err)
			}
			if n := b.Usage()[0].Used; n != 0 || len(sb.open) != 0 {
				t.Errorf("%d: %d bytes and %d bodies are left", size, n, len(sb.open))
			}
			tc.close()
		}
	})
}

// TestPayers checks that one of the GETs of an object pays for its bytes, and that another GET pays
// when the first one ends. If a share is used up, a GET of this share receives 429, and a GET of
// another share does not.
func TestPayers(t *testing.T) {
	const size = 1 << 20
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	for i := range 4 {
		tc.putLarge(fmt.Sprint(i), size)
	}
	b := budget.New(8*size, budget.Level{Name: "known", Share: 5 * size / 2})
	payer := func(name string) context.Context {
		return WithPayer(t.Context(), &Payer{Budget: b, Share: name, Most: 5 * size / 2})
	}
	share := func(name string, min, most int64) {
		t.Helper()
		if n := b.ShareBytes(0, name); n < min || n > most {
			t.Errorf("%d bytes of %s, want %d to %d", n, name, min, most)
		}
	}
	jane, john := make(chan struct{}), make(chan struct{})
	first := tc.getUnread(payer("jane"), "0", 10, jane)
	second := tc.getUnread(payer("john"), "0", 10, john)
	share("jane", size, 3*size/2)
	share("john", 0, 0)
	more := tc.getUnread(payer("jane"), "1", 1, jane)
	if codes := tc.getUnread(payer("jane"), "2", 1, closed())(); codes[0] != http.StatusTooManyRequests {
		t.Errorf("a third object of jane: %d", codes[0])
	}
	if codes := tc.getUnread(payer("john"), "2", 1, closed())(); codes[0] != http.StatusOK {
		t.Errorf("an object of john: %d", codes[0])
	}
	close(jane)
	for _, code := range append(first(), more()...) {
		if code != http.StatusOK {
			t.Error(code)
		}
	}
	share("jane", 0, 0)
	share("john", size, 3*size/2)
	close(john)
	second()
	if u := b.Usage()[0]; u.Used != 0 || u.Shares != 0 {
		t.Errorf("left: %+v", u)
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// TestUnreadLists checks that a LIST is charged for its buffers and its compressor. A LIST that
// cannot afford a compressor is not compressed, and one that cannot afford a buffer receives 429.
func TestUnreadLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 0, nil)
		defer tc.close()
		for i := range 3 * gzipAbove / 1000 {
			tc.putLarge(fmt.Sprint(i), 1000)
		}
		const share = 4 * gzipBytes
		b := budget.New(8*share, budget.Level{Name: "known", Share: share})
		ctx := WithPayer(t.Context(), &Payer{Budget: b, Share: "jane", Most: share})
		read := make(chan struct{})
		var lists []*unread
		for range 2 * share / gzipAbove {
			w := &unread{httptest.NewRecorder(), read, func() {}}
			r := newRequest("resourceVersion=0").WithContext(ctx)
			r.Header.Set("Accept-Encoding", "gzip")
			lists = append(lists, w)
			go serveList(tc.cache, w, r, "", "")
			synctest.Wait()
		}
		if n := b.ShareBytes(0, "jane"); n > share || n < share/2 {
			t.Errorf("%d bytes of %d", n, share)
		}
		close(read)
		synctest.Wait()
		zipped, plain, refused := 0, 0, 0
		for _, w := range lists {
			var l list
			switch {
			case w.Code == http.StatusTooManyRequests:
				refused++
			case w.Header().Get("Content-Encoding") == "gzip":
				zipped++
			case json.Unmarshal(w.Body.Bytes(), &l) == nil:
				plain++
			}
		}
		if zipped == 0 || plain == 0 || refused == 0 || zipped+plain+refused != len(lists) || zipped*gzipBytes > share/2 {
			t.Errorf("%d compressed, %d plain, %d refused", zipped, plain, refused)
		}
		if u := b.Usage()[0]; u.Used != 0 || u.Shares != 0 {
			t.Errorf("left: %+v", u)
		}
	})
}
