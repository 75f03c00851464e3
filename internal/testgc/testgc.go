// Package testgc has tests collect garbage less often than programs do, since they make much of it
// and hold little, and tells them what lives.
package testgc

import (
	"flag"
	"runtime"
	"runtime/debug"
)

// percent is by how much the heap of a test may grow before it is collected.
const percent = 400

// Relax lets the heap of a package's tests grow by percent between collections. TestMain calls it.
// It parses the flags, and changes nothing where benchmarks run: they measure with what programs
// have.
func Relax() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}

// Live collects garbage, and returns the bytes of the heap that live.
func Live() int64 {
	for range 3 { // what pools, finalizers and weak pointers held goes in a later round
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
