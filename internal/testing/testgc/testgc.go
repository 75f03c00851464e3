// Package testgc makes tests collect garbage less often than programs do, because they create much
// and keep little, and measures live memory.
package testgc

import (
	"flag"
	"runtime"
	"runtime/debug"
)

// percent is by how much the heap of a test may grow before it is collected.
const percent = 400

// Relax lets the heap of a package's tests grow by percent between collections. TestMain calls it.
// It parses the flags, and changes nothing for benchmarks: they measure with a program's setting.
func Relax() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}

// Live collects garbage, and returns the bytes of the live heap.
func Live() int64 {
	for range 3 { // data behind pools, finalizers and weak pointers is freed in a later round
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
