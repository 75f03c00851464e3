package reflector

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// late returns a handler that waits for d, and then responds like answer.
func late(d time.Duration, answer http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		answer(rw, r)
	}
}

// TestMaxLists checks that at most MaxLists lists run at the same time, in each mode, and that
// the pages of one list count as one.
func TestMaxLists(t *testing.T) {
	for mode, script := range map[Mode]func(h *harness) []http.HandlerFunc{
		List: func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{late(time.Second, h.list("100", "a@91")), h.events()}
		},
		Pages: func(h *harness) []http.HandlerFunc {
			half := 500 * time.Millisecond
			return []http.HandlerFunc{late(half, h.list("100/more", "a@91")), late(half, h.list("100", "b@92")), h.events()}
		},
		WatchList: func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{late(time.Second, h.events("+a@91", "end@100"))}
		},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			withHarness(t, Config{}, func(h *harness) {
				server := &Server{}
				h.run(hold)
				var all []*harness
				for range 5 {
					other := h.apart(Config{Mode: mode, MaxLists: 2, Server: server})
					other.run(script(other)...)
					defer other.stop()
					all = append(all, other)
				}
				for second, want := range []int{0, 2, 4, 5} {
					synctest.Wait()
					synced := 0
					for _, other := range all {
						if other.r.Status().Synced {
							synced++
						}
					}
					if synced != want {
						t.Errorf("%d synced after %d s, want %d", synced, second, want)
					}
					h.advance(time.Second)
				}
			})
		})
	}
}

// TestStalledListsLeaveTheirPlace checks that a list that hangs delays another list by listStall,
// and no longer.
func TestStalledListsLeaveTheirPlace(t *testing.T) {
	withHarness(t, Config{}, func(h *harness) {
		server := &Server{}
		h.run(hold)
		hanging := h.apart(Config{Mode: List, MaxLists: 1, Server: server})
		hanging.run(hold)
		defer hanging.stop()
		synctest.Wait()
		other := h.apart(Config{Mode: List, MaxLists: 1, Server: server})
		other.run(other.list("100", "a@91"), other.events())
		defer other.stop()
		h.advance(listStall - time.Second)
		if asked, status := other.asked(), other.r.Status(); len(asked) > 0 || status.String() != "listing (List), waits for its turn" {
			t.Errorf("%s, asked for %s while there was no place", status, asked)
		}
		h.advance(2 * time.Second)
		other.wantObjects("a@91")
		if status := other.r.Status(); status.Queued {
			t.Errorf("%s", status)
		}
	})
}

// TestManyStalledLists checks that another list starts within half a minute although a hundred
// lists hang.
func TestManyStalledLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q listQueue
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 100 {
			go func() {
				p, err := q.enter(ctx, 8, false)
				<-ctx.Done()
				if err == nil {
					p.leave()
				}
			}()
		}
		synctest.Wait()
		begun := time.Now()
		p, err := q.enter(t.Context(), 8, false)
		if waited := time.Since(begun); err != nil || waited > 30*time.Second {
			t.Errorf("waited for %v: %v", waited, err)
		}
		p.leave()
	})
}

// TestListQueue checks that a list keeps its place while it receives something. When a place
// becomes free, only one waiting list must get it. A caller whose context ends must not remain in
// the queue.
func TestListQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q listQueue
		enter := func(ctx context.Context, most int) (p *listPlace, err error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				p, err = q.enter(ctx, most, false)
			}()
			<-done
			return p, err
		}
		first, _ := enter(t.Context(), 2)
		second, _ := enter(t.Context(), 2)
		for range 3 {
			first.moves()
			if time.Sleep(listStall + time.Second); first.left {
				t.Error("a list that moves has lost its place")
			}
		}
		if !second.left || q.held != 1 {
			t.Errorf("a list that stalls: %d places taken", q.held)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		if _, err := enter(ctx, 1); err != gone {
			t.Errorf("gave up with %v", err)
		}
		third, _ := enter(t.Context(), 2)
		second.leave()
		second.moves()
		if q.held != 2 || len(q.waiting) != 0 {
			t.Errorf("%d places taken, %d wait", q.held, len(q.waiting))
		}
		for _, p := range []*listPlace{first, third, third, nil} {
			p.leave()
		}
		check.Equal(t, q.held, 0, "places taken in the end")
	})
}

// TestListsBeginInOrder checks that later lists with a higher MaxLists do not overtake one with a
// low MaxLists, which might otherwise wait forever.
func TestListsBeginInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q listQueue
		first, err := q.enter(t.Context(), 8, false)
		check.NoError(t, err)
		var begun atomic.Int32
		for _, most := range []int{1, 8, 8} {
			go func() {
				p, err := q.enter(t.Context(), most, false)
				if err != nil {
					t.Error(err)
				}
				begun.Add(1)
				p.leave()
			}()
			synctest.Wait()
		}
		if n := begun.Load(); n > 0 {
			t.Errorf("%d overtook", n)
		}
		first.leave()
		if synctest.Wait(); begun.Load() != 3 {
			t.Errorf("%d of 3 have begun", begun.Load())
		}
	})
}

// TestListsThatHang checks lists that hang at the start and again at each retry. They may delay
// other lists by at most 15 s at the start, and later by at most 2 s.
func TestListsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q listQueue
		ctx, cancel := context.WithCancel(t.Context())
		var all, healthy sync.WaitGroup
		begun := time.Now()
		for range 40 {
			all.Go(func() {
				for stalled := false; ctx.Err() == nil; sleep(ctx, 30*time.Second) {
					if p, err := q.enter(ctx, 8, stalled); err == nil {
						sleep(ctx, 30*time.Second)
						stalled = p.leave()
					}
				}
			})
			synctest.Wait()
			healthy.Go(func() { q.waitAndList(t, 50*time.Millisecond) })
			synctest.Wait()
		}
		healthy.Wait()
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("those that do not hang have listed after %v", took)
		}
		for time.Since(begun) < 10*time.Minute {
			time.Sleep(5 * time.Second)
			if waited := q.waitAndList(t, 50*time.Millisecond); waited > 2*time.Second {
				t.Errorf("waited for %v, %v after the start", waited, time.Since(begun))
			}
		}
		cancel()
		all.Wait()
	})
}

// TestSlowLists checks that lists may stall for listStall again if slow lists receive something
// after they lost their places.
func TestSlowLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := listQueue{stall: minListStall}
		for range 5 {
			q.waitAndList(t, listStall-time.Second)
		}
		p, err := q.enter(t.Context(), 8, false)
		if err != nil || p.stall != listStall {
			t.Errorf("may stall for %v: %v", p.stall, err)
		}
		p.leave()
	})
}

// waitAndList waits for a place. The list in that place receives something after a time (brings).
// waitAndList returns how long it waited for the place.
func (q *listQueue) waitAndList(t *testing.T, brings time.Duration) time.Duration {
	entered := time.Now()
	p, err := q.enter(t.Context(), 8, false)
	if err != nil {
		t.Error(err)
		return 0
	}
	waited := time.Since(entered)
	time.Sleep(brings)
	p.moves()
	if p.leave() {
		t.Error("a list that has brought something counts as one that hangs")
	}
	return waited
}
