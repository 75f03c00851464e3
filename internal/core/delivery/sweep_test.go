package delivery

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestResyncIsLevel checks that the resync delivers each object once per period, at an even rate.
func TestResyncIsLevel(t *testing.T) {
	const objects, period, bucket = 1200, 30 * time.Second, 100 * time.Millisecond
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		w.sync(names(objects)...)
		begin := time.Now()
		perKey := map[string]int{}
		perBucket := make([]int, 2*period/bucket)
		r := New(w.store, func(_ context.Context, e store.Change) {
			if e.Type() != store.Resynced {
				return
			}
			perKey[e.Key()]++
			perBucket[time.Since(begin)/bucket]++
		}, Options{Resync: period, ResyncStart: 0.6})
		w.run(r)
		time.Sleep(period)
		synctest.Wait()
		for key, n := range perKey {
			check.Equal(t, n, 1, "%s was resynced times in a period", key)
		}
		if len(perKey) < objects-1 {
			t.Errorf("%d of %d objects were resynced in a period", len(perKey), objects)
		}
		mean := float64(objects) / float64(period/bucket)
		for i, n := range perBucket[:period/bucket] {
			if float64(n) > 1.25*mean || float64(n) < 0.75*mean {
				t.Errorf("%d objects in bucket %d, the mean is %.1f", n, i, mean)
			}
		}
	})
}

// TestResyncAfterABusyHandler checks that after a long call of the handler, the resync does not
// deliver all delayed objects in a burst.
func TestResyncAfterABusyHandler(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		w.sync(names(1000)...)
		var slept bool
		var after []time.Time
		r := New(w.store, func(_ context.Context, e store.Change) {
			switch {
			case e.Type() != store.Resynced:
			case !slept:
				slept = true
				time.Sleep(5 * time.Second)
			default:
				after = append(after, time.Now())
			}
		}, Options{Resync: 10 * time.Second})
		w.run(r)
		time.Sleep(7 * time.Second)
		synctest.Wait()
		burst := 0
		for _, at := range after {
			if at.Sub(after[0]) < 100*time.Millisecond {
				burst++
			}
		}
		if burst > 15 {
			t.Errorf("%d objects in the first 100 ms after the block, 10 are due", burst)
		}
		if len(after) < 150 {
			t.Errorf("%d objects in the two seconds after the block, about 200 are due", len(after))
		}
	})
}

func TestResyncFollowsFilter(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		_, log := w.follow(Options{Resync: time.Second, Filter: func(o *store.Object) bool { return o.Name() == "b" }})
		w.sync("a", "b", "c")
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		expect(t, *log, `
ADDED d/b -→2 initial
RESYNC d/b 2→2
RESYNC d/b 2→2`)
	})
}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("pod-%05d", i)
	}
	return all
}
