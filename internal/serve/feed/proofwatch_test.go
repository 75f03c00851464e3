package feed

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// lateServer is a source like an API server that has just started: it refuses a watch, or sends a
// bookmark of an older state than other servers have.
type lateServer struct {
	source.Source
	bookmark string // "": Watch fails
}

func (l lateServer) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	return "9", nil
}

func (l lateServer) Watch(context.Context, metav1.ListOptions) (source.Watch, error) {
	if l.bookmark == "" {
		return nil, errors.New("not yet")
	}
	return &oneBookmark{rv: l.bookmark}, nil
}

// oneBookmark is a watch that sends only bookmarks of one resourceVersion.
type oneBookmark struct {
	source.Watch
	rv string
}

func (w *oneBookmark) Next() (source.Event, error) {
	return source.Event{Type: wire.Bookmark, Object: source.Object{Raw: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, w.rv)}}, nil
}

func (w *oneBookmark) Encoding() wire.Encoding { return wire.JSON }

func (w *oneBookmark) Close() error { return nil }

// TestNotProvenByOneWatch checks that a read does not wait for a second short WATCH if the first
// one that was opened for it proves nothing.
func TestNotProvenByOneWatch(t *testing.T) {
	for _, bookmark := range []string{"", "5"} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestFeed(t, 0) // at 5
			p := ts.proving(lateServer{bookmark: bookmark})
			if p.proveCurrent(t.Context()) || p.stats.ProofWatches.Load() != 1 {
				t.Errorf("bookmark %q: proven, or not, with %d watches", bookmark, p.stats.ProofWatches.Load())
			}
			p.close()
			if p.proveCurrent(t.Context()) || p.proveVersion(t.Context(), 9) {
				t.Errorf("bookmark %q: proven when it had ended", bookmark)
			}
		})
	}
}

// silentServer is a source. If bookmark contains a resourceVersion, each watch sends bookmarks with
// it. Otherwise each watch lasts its full time and sends nothing.
type silentServer struct {
	source.Source
	bookmark *atomic.Pointer[string]
	changes  func() int // returns the newest resourceVersion; nil: it is 9
}

func (s silentServer) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	if s.changes != nil {
		return strconv.Itoa(s.changes()), nil
	}
	return "9", nil
}

func (s silentServer) Watch(ctx context.Context, o metav1.ListOptions) (source.Watch, error) {
	if rv := s.bookmark.Load(); rv != nil {
		return &oneBookmark{rv: *rv}, nil
	}
	return &silentWatch{ctx: ctx, lasts: source.TimeoutOf(o)}, nil
}

// silentWatch is a watch that ends after its timeout.
type silentWatch struct {
	oneBookmark
	ctx   context.Context
	lasts time.Duration
}

func (w *silentWatch) Next() (source.Event, error) {
	select {
	case <-time.After(w.lasts): // in the test's time
		return source.Event{}, io.EOF
	case <-w.ctx.Done():
		return source.Event{}, w.ctx.Err()
	}
}

// TestSilentWatchesAreGivenUp checks that reads stop waiting for short WATCHes that never send a
// bookmark, like WATCHes of Events: only the first reads wait, and then one read per minute.
func TestSilentWatchesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestFeed(t, 0) // at 5
		server := silentServer{bookmark: &atomic.Pointer[string]{}}
		p := ts.proving(server)
		read := func() (took time.Duration, current bool) {
			time.Sleep(2 * turnInterval) // so that the query does not wait for its rate limit
			began := time.Now()
			current = p.proveCurrent(t.Context())
			return time.Since(began), current
		}
		for n := range 3 * maxSilent {
			took, current := read()
			if waits := took > time.Second; current || waits && n >= maxSilent || !waits && n == 0 {
				t.Errorf("read %d: current %v, after %v", n, current, took)
			}
		}
		// One more watch may start before the last of the earlier readers has left.
		if n := p.stats.ProofWatches.Load(); n > maxSilent+1 {
			t.Errorf("%d watches", n)
		}
		time.Sleep(silentRest)
		if took, current := read(); current || took < time.Second {
			t.Errorf("a minute later: current %v, after %v", current, took)
		}
		if took, _ := read(); took > time.Second {
			t.Errorf("after the silence that was tried: %v", took)
		}
		time.Sleep(silentRest)
		server.bookmark.Store(new("9"))
		for range 2 {
			if took, current := read(); !current || took > time.Second {
				t.Errorf("with bookmarks: current %v, after %v", current, took)
			}
		}
		p.close()
	})
}

// TestSilentWatchesDuringChanges checks that silent WATCHes are not counted while changes prove
// reads.
func TestSilentWatchesDuringChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestFeed(t, 0) // at 5
		ctx, cancel := context.WithCancel(t.Context())
		// The upstream's newest version is higher than the newest version of this resource, because other
		// resources have changed later.
		server := silentServer{bookmark: &atomic.Pointer[string]{}, changes: func() int { return int(ts.version()) + 5 }}
		p := ts.proving(server)
		var changing sync.WaitGroup
		changing.Go(func() {
			for rv := 10; ctx.Err() == nil; rv += 10 {
				if err := ts.put(wire.Modified, "a", rv, 0); err != nil {
					t.Error(err)
				}
				ts.Progress(strconv.Itoa(rv))
				ts.Flush()
				time.Sleep(700 * time.Millisecond)
			}
		})
		for n := range 40 {
			time.Sleep(2 * time.Second)
			if !p.proveCurrent(t.Context()) {
				t.Errorf("read %d is not proven", n)
			}
		}
		cancel()
		p.close()
		changing.Wait()
	})
}

// movingServer is a source whose watches send one bookmark, after a second. The bookmark's version
// is one higher than the version from which the watch was opened.
type movingServer struct{ source.Source }

func (movingServer) Watch(_ context.Context, o metav1.ListOptions) (source.Watch, error) {
	time.Sleep(time.Second) // in the test's time
	return &oneBookmark{rv: resourceversion.Format(resourceversion.Number(o.ResourceVersion) + 1)}, nil
}

// TestNotProvenWithoutReader checks a client that requests a resourceVersion in the far future.
// Each watch proves a newer version, so the prover opens further watches. When the client no longer
// waits, it must open none.
func TestNotProvenWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestFeed(t, 0) // at 5
		p := ts.proving(movingServer{})
		if p.proveVersion(t.Context(), 1<<40) {
			t.Error("proven to be where the upstream is not")
		}
		time.Sleep(time.Minute)
		if n := p.stats.ProofWatches.Load(); n > 2 { // the second may start before the timeout
			t.Errorf("%d watches for one client that has gone", n)
		}
		if !p.proveVersion(t.Context(), ts.version()+1) {
			t.Error("not proven after that")
		}
	})
}

// TestProofsAskAnother checks that the prover uses another source after a server does not answer,
// or proves nothing.
func TestProofsAskAnother(t *testing.T) {
	for name, bad := range map[string]source.Source{"no answer": deafServer{}, "no proof": lateServer{}} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTestFeed(t, 0) // at 5
			sources := []source.Source{bad, lateServer{bookmark: "9"}}
			p := ts.proving(sources...)
			if p.proveCurrent(t.Context()) {
				t.Errorf("%s: proven by it", name)
			}
			if !p.proveCurrent(t.Context()) {
				t.Errorf("%s: not proven by the other source", name)
			}
		})
	}
}

// deafServer is a source that answers no query.
type deafServer struct{ source.Source }

func (deafServer) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	return "", errors.New("no answer")
}

// TestProofsAskOneServer checks that the LIST and the WATCH of a proof use one connection, so that
// the same API server answers both. The LIST and the WATCH of an ordinary source use two
// connections.
func TestProofsAskOneServer(t *testing.T) {
	t.Parallel()
	server, err := apiserver.New(apiserver.Options{Pods: 3})
	check.NoError(t, err)
	defer server.Close()
	var mu sync.Mutex
	from := map[string]bool{}
	u := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	u.EnableHTTP2 = true
	u.StartTLS()
	defer u.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: u.Certificate().Raw})
	cfg := &rest.Config{Host: u.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	pods := source.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
	for _, of := range []struct {
		name        string
		source      func(*rest.Config, source.Resource, source.Options) (*source.REST, error)
		connections int
	}{
		{"proofs", newProofSource, 1},
		{"sessions", source.New, 2},
	} {
		src, err := of.source(cfg, pods, source.Options{})
		check.NoError(t, err)
		rv, err := src.NewestVersion(t.Context(), metav1.ListOptions{})
		check.NoError(t, err)
		w, err := src.Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
		check.NoError(t, err)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		check.Equal(t, len(from), of.connections, "%s: connections", of.name)
		clear(from)
		mu.Unlock()
		src.CloseIdleConnections()
	}
}
