package debug

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestPoint checks that a point has a relative error of at most 0.2 %.
func TestPoint(t *testing.T) {
	for _, v := range []float64{0, 0.001, 1, 2, 3, 1234, 5.5e6, 7.77e10, 1e15} {
		if got := float64(pointOf(v).value()); math.Abs(got-v) > 0.002*v {
			t.Errorf("%g is %g", v, got)
		}
	}
	check.Equal(t, pointOf(-1).value(), 0, "a negative value")
}

// TestTrend checks that the handler records a point every ten seconds, rates for totals and values
// for the others; that it keeps the last half hour; and that it forgets informers that have ended.
func TestTrend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := newTrends()
		s := simulate(t, "pods", func(context.Context, store.Change) {})
		points := func(name string) []float32 {
			for _, one := range past.report(time.Now(), func(string) bool { return true }).Informers[0].Series {
				if one.Name == name {
					return one.Points
				}
			}
			t.Fatalf("no series %s", name)
			return nil
		}
		time.Sleep(pointEvery + time.Second) // the first call stores the totals
		check.Equal(t, len(points("memory")), 0, "points before the second call")
		for i := range 20 {
			s.add(fmt.Sprint(i))
		}
		time.Sleep(pointEvery)
		time.Sleep(pointEvery)
		if got := points("events/s"); !slices.Equal(got, []float32{2, 0}) {
			t.Errorf("events/s: %v", got)
		}
		if got := points("memory"); len(got) != 2 || got[1] < 100 {
			t.Errorf("memory: %v", got)
		}
		time.Sleep(2 * maxPoints * pointEvery)
		check.Equal(t, len(points("events/s")), maxPoints, "points after an hour")
		check.Equal(t, slices.Max(points("events/s")), 0, "the largest of the last half hour")
		past.mu.Lock()
		past.byID["informer ended"] = &trend{}
		past.mu.Unlock()
		time.Sleep(pointEvery)
		past.mu.Lock()
		defer past.mu.Unlock()
		check.Equal(t, len(past.byID), 1, "informers that it remembers")
	})
}

// TestTrendEnds checks that the points end when the handler is no longer in memory.
func TestTrendEnds(t *testing.T) {
	gone := make(chan struct{})
	func() {
		runtime.AddCleanup(newTrends(), func(gone chan struct{}) { close(gone) }, gone)
	}()
	testenv.Eventually(t, t.Context(), "the trends are collected", func() bool {
		runtime.GC()
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
}

// TestTrendMemory checks that half an hour of the figures of 100 informers uses at most 200 KB.
func TestTrendMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	past := &trends{byID: map[string]*trend{}}
	for i := range 100 {
		one := &trend{}
		for n := range 2 * maxPoints {
			one.add(&informerSeries, [maxSeries]float64{float64(n), 1, 1, 1}, pointEvery)
		}
		past.byID[strings.Repeat("n", 40)+fmt.Sprint(i)] = one
	}
	if used := heap() - before; used > 200_000 {
		t.Errorf("%d bytes", used)
	} else {
		t.Logf("%d bytes", used)
	}
	runtime.KeepAlive(past)
}
