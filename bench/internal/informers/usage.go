package informers

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/weirproject/weir/bench/internal/trace"
	"github.com/weirproject/weir/internal/rusage"
)

// usage is what this process has used so far.
type usage struct {
	at     time.Time
	cpu    time.Duration
	alloc  uint64 // bytes ever allocated on the heap
	events int64
}

// now returns what this process has used so far. events is the caller's count of events.
func now(events int64) usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: rusage.CPUTime(), alloc: m.TotalAlloc, events: events}
}

// heap is the live heap after garbage collection.
type heap struct{ bytes, objects uint64 }

// settledHeap collects garbage until that frees next to nothing, and returns the heap. What pools,
// cleanups and weak pointers hold takes several collections to go.
func settledHeap() heap {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.HeapAlloc {
		for range 2 {
			runtime.GC()
			time.Sleep(time.Millisecond) // for cleanups, which the runtime calls after it
		}
		runtime.ReadMemStats(&m)
		if m.HeapAlloc >= before-before/1000 {
			return heap{bytes: m.HeapAlloc, objects: m.HeapObjects}
		}
	}
}

// sample returns what this process uses now, for a trace.
func (s *subject) sample() trace.Sample {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return trace.Sample{
		RSSBytes: resident(), HeapBytes: float64(live[0].Value.Uint64()), CPU: rusage.CPUTime(), Events: float64(s.events.Load()),
	}
}

// resident returns the resident set in bytes. If the system does not tell it, that is the memory
// that Go's runtime has and has not released.
func resident() float64 {
	if n, ok := rusage.RSS(); ok {
		return float64(n)
	}
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return float64(m[0].Value.Uint64() - m[1].Value.Uint64())
}
