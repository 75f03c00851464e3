package testenv

import (
	"flag"
	"runtime"
	"runtime/debug"
)

// percent is by how much the heap of a test may grow before it is collected: tests create much and
// keep little.
const percent = 400

// RelaxGC makes a package's tests collect garbage less often than programs do. TestMain calls it.
// It parses the flags, and changes nothing for benchmarks: they measure with a program's setting.
func RelaxGC() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}

// LiveBytes collects garbage, and returns the bytes of the live heap.
func LiveBytes() int64 {
	for range 3 { // data behind pools, finalizers and weak pointers is freed in a later round
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
