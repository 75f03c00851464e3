package watchcache

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// lateSource is the change source of a watcher for which the cache retains bytes.
type lateSource struct{ changeSource }

func (lateSource) kept() int64 { return 1 }

// cutClient is a client that calls onCut when the cache cuts it off.
type cutClient struct {
	*recorder
	onCut func()
	cut   bool
}

func (w *cutClient) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		w.cut = true
		w.onCut()
	}
	return nil
}

// TestWriteEndsMeanwhile checks two stalled clients. One of them reads everything before the cache
// cuts clients off. Only the other client is cut off, even if a new write to the first client has
// started.
func TestWriteEndsMeanwhile(t *testing.T) {
	for name, shed := range map[string]bool{"timed out": false, "shed": true} {
		for _, again := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ds := &writeDeadlines{timeout: time.Minute, stalled: &atomic.Uint64{}}
				source := changeSource(lateSource{})
				var clients [2]*cutClient
				var writes [2]*writeDeadline
				for i := range clients {
					clients[i] = &cutClient{recorder: newRecorder()}
					writes[i] = ds.start(clients[i])
					defer writes[i].close()
					writes[i].source.Store(&source)
				}
				for i := range clients {
					clients[i].onCut = func() {
						writes[i].done()
						other := writes[1-i]
						if other.done(); again {
							_ = other.begin()
						}
					}
				}
				for i := range writes {
					check.NoError(t, writes[i].begin())
				}
				if shed {
					time.Sleep(2 * slowAfter)
					check.Equal(t, shedStuck(ds, 2), 1, "are shed")
				} else {
					time.Sleep(ds.timeout * 3 / 2)
					synctest.Wait()
				}
				if clients[0].cut == clients[1].cut || ds.stalled.Load() != 1 {
					t.Errorf("%s, again %v: let go %v and %v, %d counted", name, again, clients[0].cut, clients[1].cut, ds.stalled.Load())
				}
			})
		}
	}
}

// shedStuck ends up to n watches whose clients do not read, and returns their number.
func shedStuck(ds *writeDeadlines, n int) int {
	ended, _ := ds.shed(true, n, math.MaxInt64)
	return ended
}

// TestDeafClients checks a client that was cut off and whose write still blocks. This happens over
// HTTP/2 if the connection accepts no bytes. The cache counts the client once, and cuts other
// clients off too.
func TestDeafClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := &writeDeadlines{timeout: time.Minute, stalled: &atomic.Uint64{}}
		source := changeSource(lateSource{})
		var deaf [3]*cutClient
		for i := range deaf {
			deaf[i] = &cutClient{recorder: newRecorder(), onCut: func() {}}
			wd := ds.start(deaf[i])
			defer wd.close()
			wd.source.Store(&source)
			check.NoError(t, wd.begin())
		}
		time.Sleep(2 * slowAfter)
		for i := range deaf {
			check.Equal(t, shedStuck(ds, 1), 1, "round %d: are let go", i)
		}
		if n := shedStuck(ds, 1); n != 0 || !deaf[0].cut || !deaf[1].cut || !deaf[2].cut {
			t.Errorf("%d are let go again", n)
		}
		time.Sleep(3 * ds.timeout)
		synctest.Wait()
		check.Equal(t, ds.stalled.Load(), 3, "are counted")
	})
}

// TestStateCountsWaits checks how the cache decides whether a client reads a state too slowly. Only
// the time that writes take must count.
func TestStateCountsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := &writeDeadlines{timeout: time.Hour, stalled: &atomic.Uint64{}}
		wd := ds.start(newRecorder())
		defer wd.close()
		wd.beginState(initialRate)
		write := func() error { return wd.during(func() error { time.Sleep(stateGrace / 2); return nil }) }
		for range 3 {
			time.Sleep(2 * stateGrace)
			check.NoError(t, write())
		}
		check.ErrorIs(t, write(), errTooSlow, "a client that took nothing for longer than the grace")
	})
}

// TestPromptClientStays checks that no check cuts off a client that reads everything immediately,
// even if the check runs during a write.
func TestPromptClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the timers end with the bubble
		ds := &writeDeadlines{timeout: time.Hour, stalled: &atomic.Uint64{}}
		wd := ds.start(newRecorder())
		defer wd.close()
		var over atomic.Bool
		defer over.Store(true)
		go func() {
			for !over.Load() {
				_ = wd.begin()
				wd.done()
			}
		}()
		for range 20_000 {
			ds.check()
		}
		check.Equal(t, ds.stalled.Load(), 0, "let go times")
	})
}

// TestShedSparesThoseSentNothing checks that shedding does not end a watcher between two writes:
// its client has read everything that was sent, and waits for the server.
func TestShedSparesThoseSentNothing(t *testing.T) {
	for _, zip := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 0, nil)
			defer tc.close()
			s := tc.cache.newStream(newRecorder(), nil, "application/json", zip, false)
			defer s.end()
			source := changeSource(lateSource{})
			s.deadline.source.Store(&source)
			s.write(make([]byte, 2*streamBuffer))
			time.Sleep(2 * slowAfter)
			check.Equal(t, shedStuck(&tc.cache.watchWrites, 9), 0, "compressed %v: are let go", zip)
			if err := s.flush(); err != nil {
				t.Error(err)
			}
		})
	}
}
