package watchcache

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/testing/check"
)

// crowdFor returns the number of active watchers with which a pacer makes each watcher wait for the
// given time.
func crowdFor(wait time.Duration) int {
	return int(wait * time.Duration(flushesPerCPU*runtime.GOMAXPROCS(0)) / time.Second)
}

// changes makes n changes, a millisecond apart, and returns the number of writes to w.
func (tc *testCache) changes(n int, w *recorder) int {
	before := w.flushed()
	for i := range n {
		tc.put("ns", fmt.Sprint("t", i), "red")
		synctest.Wait()
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Second)
	synctest.Wait()
	return w.flushed() - before
}

// TestFewWatchersReceiveImmediately checks that with few watchers each change is written
// immediately in a separate write, even if many other watchers were active earlier.
func TestFewWatchersReceiveImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = 25 * time.Millisecond
		tc := newTestCache(t, 0, func(cfg *Config) { cfg.Flush = NewFlushPacer(longest) })
		defer tc.close()
		var stops []func()
		for range crowdFor(longest) {
			stops = append(stops, tc.watch("resourceVersion="+resourceversion.Format(tc.rv), newRecorder()))
		}
		w := newRecorder()
		defer tc.watch("resourceVersion="+resourceversion.Format(tc.rv), w)()
		tc.changes(10, w)
		for _, stop := range stops {
			stop()
		}
		time.Sleep(2 * longest)
		if writes := tc.changes(10, w); writes != 10 || len(w.events(t)) != 20 {
			t.Errorf("%d events in %d writes", len(w.events(t)), writes)
		}
	})
}

// TestManyWatchersShareWrites checks that, with many watchers, changes shortly after a write share
// the next write. A change after a pause must be written immediately.
func TestManyWatchersShareWrites(t *testing.T) {
	for _, tt := range []struct {
		name     string
		watchers int
		writes   int
	}{
		{"longest wait", 2 * crowdFor(25*time.Millisecond), 2},
		{"shorter wait", crowdFor(5500 * time.Microsecond), 3}, // writes at 0, 5.5 and 11 ms
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 0, func(cfg *Config) { cfg.Flush = NewFlushPacer(25 * time.Millisecond) })
				defer tc.close()
				var w *recorder
				for range tt.watchers {
					w = newRecorder()
					defer tc.watch("resourceVersion="+resourceversion.Format(tc.rv), w)()
				}
				for range 2 {
					time.Sleep(time.Second)
					synctest.Wait()
					seen := len(w.events(t))
					if writes := tc.changes(10, w); writes != tt.writes || len(w.events(t)) != seen+10 {
						t.Errorf("%d events in %d writes", len(w.events(t))-seen, writes)
					}
				}
			})
		})
	}
}

// TestStalledWatchersDelayNoOthers checks that watchers whose clients read nothing do not change
// how long other watchers wait.
func TestStalledWatchersDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const longest = 25 * time.Millisecond
		tc := newTestCache(t, 0, func(cfg *Config) { cfg.Flush = NewFlushPacer(longest) })
		defer tc.close()
		for range crowdFor(longest) {
			w := newRecorder()
			defer tc.watch("resourceVersion="+resourceversion.Format(tc.rv), w)()
			w.block()
			defer w.unblock()
		}
		w := newRecorder()
		defer tc.watch("resourceVersion="+resourceversion.Format(tc.rv), w)()
		synctest.Wait()
		tc.changes(1, w) // now all stalled watchers are blocked
		check.Equal(t, tc.changes(10, w), 10, "written to times")
	})
}
