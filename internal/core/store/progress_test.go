package store

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestSyncedAtItsVersion checks that a store that is synced also has a resourceVersion. The first
// list of the last writer has objects that another writer reported as deleted. They are too many
// for one batch.
func TestSyncedAtItsVersion(t *testing.T) {
	testenv.SkipUnderRace(t)
	for name, end := range map[string]string{"right": "500", "not known yet": "150"} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				s := New(Config{Encoding: wire.Protobuf})
				w, other := s.Writer(Scope{}), s.Writer(Scope{Owner: 1})
				other.BeginReplace(false)
				for i := range batchChanges + 1 {
					putPod(t, other, smallPod("a", strconv.Itoa(i), i, 50, nil, "n"))
				}
				other.EndReplace("100")
				for i := range batchChanges + 1 {
					deletePod(t, other, smallPod("a", strconv.Itoa(i), i, 200+i, nil, "n"))
				}
				other.Progress("400")
				other.Flush()

				w.BeginReplace(false)
				for i := range batchChanges + 1 {
					putPod(t, w, smallPod("a", strconv.Itoa(i), i, 50, nil, "n"))
				}
				found := ""
				var reader sync.WaitGroup
				reader.Go(func() {
					for synced := false; !synced; {
						s.mu.RLock()
						synced, found = s.syncedLocked(), s.resourceVersionLocked()
						s.mu.RUnlock()
					}
				})
				w.EndReplace(end)
				w.Progress("500")
				reader.Wait()
				if s.Close(); found == "" {
					t.Fatal("synced, and at no resourceVersion")
				}
			}
		})
	}
}

// TestWaitAfterRestore checks WaitResourceVersion after a writer has found a restore. It must not
// return before each writer has listed again or is removed. A version that a writer had before the
// restore must not count, even if it is higher than the version that the caller waits for.
func TestWaitAfterRestore(t *testing.T) {
	list := func(w *Writer) {
		w.BeginReplace(false)
		w.EndReplace("530")
	}
	for _, tc := range []struct {
		name  string
		steps []func(x, y *Writer) // y is outdated at first; the last step ends the wait
	}{
		{"both list", []func(x, y *Writer){
			func(x, _ *Writer) { x.EndReplace("521") },
			func(_, y *Writer) { y.Progress("1001") }, // has no effect
			func(_, y *Writer) { list(y) },
		}},
		{"the other one lists first", []func(x, y *Writer){
			func(_, y *Writer) { list(y) },
			func(x, _ *Writer) { x.AbortReplace() },
			func(x, _ *Writer) { x.BeginReplace(true); x.AbortReplace() },
			func(_, y *Writer) { list(y) },
			func(x, _ *Writer) { x.BeginReplace(true) },
			func(x, _ *Writer) { x.EndReplace("521") },
		}},
		{"the other one is removed", []func(x, y *Writer){
			func(x, _ *Writer) { x.EndReplace("520") },
			func(_, y *Writer) { y.Remove() },
			func(x, _ *Writer) { x.Progress("521") },
		}},
		{"the other one is removed last", []func(x, y *Writer){
			func(x, _ *Writer) { x.EndReplace("521") },
			func(_, y *Writer) { y.Remove() },
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{})
				defer s.Close()
				x, y := s.Writer(Scope{}), s.Writer(Scope{Owner: 1})
				for _, w := range []*Writer{x, y} {
					w.BeginReplace(false)
					w.EndReplace("1000")
				}
				x.BeginReplace(true)
				waited := make(chan error, 1)
				go func() { waited <- s.WaitResourceVersion(t.Context(), "521") }()
				for i, step := range tc.steps {
					synctest.Wait()
					select {
					case err := <-waited:
						t.Fatalf("did not wait for step %d: %v", i, err)
					default:
					}
					step(x, y)
				}
				synctest.Wait()
				select {
				case err := <-waited:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Fatal("waits on")
				}
			})
		})
	}
}

// countedContext counts the calls of Done. A caller calls Done when it starts to wait, and again
// each time that it was woken and must continue to wait.
type countedContext struct {
	context.Context
	waits *atomic.Int64
}

func (c countedContext) Done() <-chan struct{} {
	c.waits.Add(1)
	return c.Context.Done()
}

// TestWaitersAreWokenOnce lets many callers wait for resourceVersions. Each caller must be woken
// when its version is reached, and not by earlier progress. The store must not keep an entry of a
// caller that gives up.
func TestWaitersAreWokenOnce(t *testing.T) {
	const many, from = 100, 5000
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		defer s.Close()
		w := s.Writer(Scope{})
		w.BeginReplace(false)
		w.EndReplace("1000")
		var waits, reached, gaveUp, closed atomic.Int64
		leaving, leave := context.WithCancel(t.Context())
		wait := func(ctx context.Context, rv int) {
			switch err := s.WaitResourceVersion(countedContext{ctx, &waits}, strconv.Itoa(rv)); {
			case err == nil:
				reached.Add(1)
			case errors.Is(err, context.Canceled):
				gaveUp.Add(1)
			case errors.Is(err, ErrClosed):
				closed.Add(1)
			}
		}
		for i := range many {
			go wait(t.Context(), from+(i*37)%many)
			go wait(leaving, from+(i*37)%many)
		}
		synctest.Wait()
		for rv := 1001; rv < 2000; rv++ {
			w.Progress(strconv.Itoa(rv))
			synctest.Wait()
		}
		check.Equal(t, waits.Load(), 2*many, "%d began to wait, times", 2*many)
		leave()
		synctest.Wait()
		if n := gaveUp.Load(); n != many || len(s.waiting) != many {
			t.Errorf("%d have given up, and %d are waited for", n, len(s.waiting))
		}
		w.Progress(strconv.Itoa(from + many/2 - 1))
		synctest.Wait()
		check.Equal(t, reached.Load(), many/2, "half of the versions are reached, and woken")
		s.Close()
		synctest.Wait()
		if n := closed.Load(); n != many/2 || len(s.waiting) != 0 {
			t.Errorf("%d were woken at the end, %d are left", n, len(s.waiting))
		}
	})
}
