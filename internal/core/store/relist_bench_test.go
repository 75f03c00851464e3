package store

import (
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// BenchmarkRelist measures a relist of 50,000 pods of which some have changed: the CPU time of one
// relist, the longest wait of a reader, and the live memory at the end of the list, before
// EndReplace.
func BenchmarkRelist(b *testing.B) {
	const n = 50_000
	set := newBenchSet(b, wire.Protobuf, n)
	for _, changed := range []int{0, 500, 10_000} {
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			s := newStore(b, decodeConfig())
			check.NoError(b, s.AddIndex("app", LabelIndex("app")))
			w := s.Writer(Scope{})
			c := s.Cursor()
			buf := make([]Change, 1024)
			rv := 1_000_000
			var live, wait, used int64
			relist := func() {
				w.BeginReplace(false)
				for i, raw := range set.raws {
					m := set.metas[i]
					if changed > 0 && i%(n/changed) == 0 {
						rv++
						m.ResourceVersion = strconv.AppendInt(set.rv[:0], int64(rv), 10)
						set.metas[i].ResourceVersion = strconv.AppendInt(nil, int64(rv), 10)
					}
					check.NoError(b, w.Put(&m, raw))
				}
			}
			end := func() {
				w.EndReplace(strconv.Itoa(rv))
				for c.Next(buf) > 0 {
				}
			}
			relist()
			end()
			for b.Loop() {
				b.StopTimer()
				before := heapAlloc()
				from := cpu(b)
				b.StartTimer()
				relist()
				b.StopTimer()
				used += cpu(b) - from
				live = max(live, heapAlloc()-before)
				done, longest := make(chan struct{}), make(chan int64)
				go func() {
					var most int64
					for {
						select {
						case <-done:
							longest <- most
							return
						default:
						}
						time.Sleep(100 * time.Microsecond)
						from := time.Now()
						s.Get(set.keys[0])
						most = max(most, int64(time.Since(from)))
					}
				}()
				from = cpu(b)
				b.StartTimer()
				end()
				b.StopTimer()
				used += cpu(b) - from
				close(done)
				wait = max(wait, <-longest)
				b.StartTimer()
			}
			b.ReportMetric(float64(used)/1e6/float64(b.N), "ms-cpu/op")
			b.ReportMetric(float64(live)/1024, "KiB-live")
			b.ReportMetric(float64(wait)/1e6, "ms-wait")
		})
	}
}

// cpu returns the CPU time of the process in nanoseconds.
func cpu(b *testing.B) int64 {
	var used syscall.Rusage
	check.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return used.Utime.Nano() + used.Stime.Nano()
}

func heapAlloc() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
