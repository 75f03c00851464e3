package feed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// clockedSource answers each query for the newest resourceVersion with 2, and records the query's
// time.
type clockedSource struct {
	source.Source
	began time.Time
	asked []time.Duration
}

func (s *clockedSource) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	s.asked = append(s.asked, time.Since(s.began).Round(time.Millisecond))
	return "2", nil
}

// TestQueriesArePaced checks that a reader that starts shortly after another one does not wait. It
// also checks that a sequence of many readers causes one query per second.
func TestQueriesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &clockedSource{began: time.Now()}
		ts := newTestFeed(t, 0)
		ts.Progress("2")
		ts.Flush()
		p := ts.proving(src)
		var readers sync.WaitGroup
		for range 30 {
			readers.Go(func() {
				if !p.proveCurrent(t.Context()) {
					t.Error("not proven")
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		readers.Wait()
		want := []time.Duration{0, 100 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second}
		if !slices.Equal(src.asked, want) {
			t.Errorf("asked at %v, want %v", src.asked, want)
		}
	})
}

// changedServer is a source whose watches send a change at 6 and then a bookmark at 9.
type changedServer struct{ source.Source }

func (changedServer) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	return "9", nil
}

func (changedServer) Watch(context.Context, metav1.ListOptions) (source.Watch, error) {
	return &scriptedWatch{source: &scriptedSource{events: []source.Event{
		{Type: wire.Modified, Object: source.Object{Raw: scriptedObject("a", 6)}},
		{Type: wire.Bookmark, Object: source.Object{Raw: []byte(`{"metadata":{"resourceVersion":"9"}}`)}},
	}}}, nil
}

// TestProvenWhileStalled checks that a bookmark does not prove that a feed is current if the feed
// has not received the change before the bookmark. A feed that has lost its watch sends no query.
func TestProvenWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestFeed(t, 0)
		p := ts.proving(changedServer{})
		if p.proveCurrent(t.Context()) || ts.version() != 5 || ts.stats.ProofWatches.Load() == 0 {
			t.Errorf("current, or at %d in place of 5, after %d watches", ts.version(), ts.stats.ProofWatches.Load())
		}
		synctest.Wait()
		asked := ts.stats.VersionQueries.Load()
		p.status = func() reflector.Status {
			return reflector.Status{Phase: reflector.Watching, Err: errors.New("lost")}
		}
		if p.proveCurrent(t.Context()) || ts.stats.VersionQueries.Load() != asked {
			t.Error("a feed that has lost its watch is current, or has sent a query")
		}
	})
}

// TestReadToBookmark checks that a bookmark proves that a feed is current if the feed has received
// the change before the bookmark.
func TestReadToBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTestFeed(t, 0)
		p := ts.proving(changedServer{})
		check.NoError(t, ts.put(wire.Modified, "a", 6, 0))
		if p.watchOnce(nil); ts.version() != 9 {
			t.Errorf("at %d in place of 9", ts.version())
		}
	})
}

// TestProve checks that a proof raises the feed's version and wakes the callers that wait for it.
// If a proof says that no change exists at a resourceVersion, a later change at that
// resourceVersion shows that the upstream went back in time.
func TestProve(t *testing.T) {
	ts := newTestFeed(t, 0)
	waited := make(chan error, 1)
	go func() { waited <- ts.Wait(t.Context(), 9) }()
	for range 2 {
		ts.prove(9)
	}
	check.NoError(t, <-waited)
	if ts.prove(7); ts.version() != 9 {
		t.Errorf("proven at 9, and at %d", ts.version())
	}
	if err := ts.Wait(t.Context(), 8); err != nil {
		t.Error(err)
	}
	late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	check.ErrorIs(t, ts.Wait(late, 10), context.DeadlineExceeded, "waiting for what is not there")
	if err := ts.put(wire.Modified, "a", 10, 0); err != nil || ts.version() != 10 || ts.ended != nil {
		t.Errorf("a change after it: %v, at %d, given up for %v", err, ts.version(), ts.ended)
	}
	ts.prove(20)
	if err := ts.put(wire.Modified, "a", 15, 0); !errors.Is(err, ErrWentBack) || !errors.Is(ts.ended, ErrWentBack) {
		t.Errorf("a change that was proven not to be: %v, given up for %v", err, ts.ended)
	}
}

// changing is a source that applies a newer change before it answers a query for the newest
// resourceVersion.
type changing struct {
	source.Source
	newest string
	then   func()
}

func (c changing) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	c.then()
	return c.newest, nil
}

// TestProvenUnderChanges checks two cases in which a feed is newer than the answer to its query. If
// the feed became newer during the query, because a change arrived, the feed is current. If the
// feed was already newer before the query, the upstream went back in time.
func TestProvenUnderChanges(t *testing.T) {
	for _, tt := range []struct {
		newest  string
		current bool
	}{{"6", true}, {"5", true}, {"4", false}} {
		ts := newTestFeed(t, 0) // at 5
		src := changing{newest: tt.newest, then: func() {
			if err := ts.put(wire.Modified, "a", 9, 0); err != nil {
				t.Error(err)
			}
		}}
		p := ts.proving(src)
		check.Equal(t, p.proveCurrent(t.Context()), tt.current, "the upstream was at %s, the copy at 5, and is at %d: current", tt.newest, ts.version())
	}
}
