package testenv

import (
	"flag"
	"runtime"
	"runtime/debug"
)

// percent is GOGC for tests. It is higher than the default because tests allocate much and keep
// little of it.
const percent = 400

// RelaxGC makes a package's tests collect garbage less often than programs do. TestMain calls it.
// RelaxGC parses the flags. It changes nothing if benchmarks run, so that they measure with a
// program's setting.
func RelaxGC() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}

// LiveBytes collects garbage and returns the size of the live heap in bytes.
func LiveBytes() int64 {
	for range 3 { // data behind pools, finalizers and weak pointers needs several rounds
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
