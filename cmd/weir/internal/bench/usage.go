package bench

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"time"
)

// PeakRSS is the largest resident set that this process has had, in bytes; 0 where the system does not tell.
func PeakRSS() int64 {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return maxRSS()
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		// VmHWM:	   55424 kB
		if kb, ok := bytes.CutPrefix(lines.Bytes(), []byte("VmHWM:")); ok {
			n, err := strconv.ParseInt(string(bytes.Fields(kb)[0]), 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return maxRSS()
}

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
	return usage{at: time.Now(), cpu: cpuTime(), alloc: m.TotalAlloc, events: events}
}

// heap is the live heap after garbage collection.
type heap struct{ bytes, objects uint64 }

// settledHeap collects garbage twice, so that what finalizers and weak pointers held is gone too, and reads the heap.
func settledHeap() heap {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap{bytes: m.HeapAlloc, objects: m.HeapObjects}
}
