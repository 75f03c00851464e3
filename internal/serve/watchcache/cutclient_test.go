package watchcache

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// lateSource is the source of a watcher for which something is kept.
type lateSource struct{ changeSource }

func (lateSource) kept() int64 { return 1 }

// cutClient is a client of which a test sees that it is let go.
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

// TestWriteEndsMeanwhile: of two clients that take nothing one is let go. The other has taken
// everything by then, and stays, whether or not it has begun another write.
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
					if err := writes[i].begin(); err != nil {
						t.Fatal(err)
					}
				}
				if shed {
					time.Sleep(2 * slowAfter)
					if n := ds.shedStuck(2); n != 1 {
						t.Errorf("%d are shed", n)
					}
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

// TestDeafClients: who has been let go is counted once and does not stand before others, although
// the write goes on, as over HTTP/2 while the connection takes nothing.
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
			if err := wd.begin(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * slowAfter)
		for i := range deaf {
			if n := ds.shedStuck(1); n != 1 {
				t.Errorf("round %d: %d are let go", i, n)
			}
		}
		if n := ds.shedStuck(1); n != 0 || !deaf[0].cut || !deaf[1].cut || !deaf[2].cut {
			t.Errorf("%d are let go again", n)
		}
		time.Sleep(3 * ds.timeout)
		synctest.Wait()
		if n := ds.stalled.Load(); n != 3 {
			t.Errorf("%d are counted, want 3", n)
		}
	})
}

// TestStateCountsWaits: a client is too slow for a state by what writes to it take, not by what the
// server takes between them.
func TestStateCountsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := &writeDeadlines{timeout: time.Hour, stalled: &atomic.Uint64{}}
		wd := ds.start(newRecorder())
		defer wd.close()
		wd.beginState(initialRate)
		write := func() error { return wd.during(func() error { time.Sleep(stateGrace / 2); return nil }) }
		for range 3 {
			time.Sleep(2 * stateGrace)
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(); !errors.Is(err, errTooSlow) {
			t.Errorf("a client that took nothing for longer than the grace: %v", err)
		}
	})
}

// TestPromptClientStays: no check cuts off a client that takes everything at once, whenever the
// check comes.
func TestPromptClientStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose timers end with it
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
		if n := ds.stalled.Load(); n != 0 {
			t.Errorf("let go %d times", n)
		}
	})
}

// TestShedSparesThoseSentNothing: a watcher for which the server only computes has taken everything
// that there was.
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
			if n := tc.cache.ShedStuck(9); n != 0 {
				t.Errorf("compressed %v: %d are let go", zip, n)
			}
			if err := s.flush(); err != nil {
				t.Error(err)
			}
		})
	}
}
