package informers

import (
	"runtime"
	"time"

	"github.com/weirproject/weir/internal/rusage"
)

// usage is what this process has used so far.
type usage struct {
	at     time.Time
	cpu    time.Duration
	alloc  uint64 // bytes ever allocated on the heap
	events int64
}

// now reads the usage; events is the caller's count of events so far.
func now(events int64) usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: rusage.CPUTime(), alloc: m.TotalAlloc, events: events}
}

// heap is the live heap after garbage collection.
type heap struct{ bytes, objects uint64 }

// settledHeap collects garbage twice, so that what finalizers and weak pointers held is gone too,
// and reads the heap.
func settledHeap() heap {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap{bytes: m.HeapAlloc, objects: m.HeapObjects}
}
