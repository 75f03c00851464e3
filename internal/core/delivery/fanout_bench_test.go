package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// BenchmarkFanOut measures the time until the last of many handlers has received a change.
func BenchmarkFanOut(b *testing.B) {
	for _, handlers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(handlers), func(b *testing.B) { fanOut(b, handlers) })
	}
}

func fanOut(b *testing.B, handlers int) {
	w := newTestStore(b, store.Config{})
	w.sync()
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var left atomic.Int64
	handled := make(chan struct{})
	workers := &Workers{}
	for range handlers {
		r := New(w.store, func(context.Context, store.Change) {
			if left.Add(-1) == 0 {
				handled <- struct{}{}
			}
		}, Options{Workers: workers})
		running.Go(func() { r.Run(ctx) })
		<-r.Synced()
	}
	var took []time.Duration
	for b.Loop() {
		left.Store(int64(handlers))
		began := time.Now()
		w.put("a", "")
		<-handled
		took = append(took, time.Since(began))
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
