package testenv

import (
	"flag"
	"runtime"
	"runtime/debug"
)

// percent is GOGC in tests. It is higher than the default, because tests allocate much memory and
// release most of it soon.
const percent = 400

// RelaxGC makes garbage collections rarer in the tests of a package. TestMain calls it. RelaxGC
// parses the flags. If benchmarks run, it does not change the setting, so that they measure with
// the default.
func RelaxGC() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(percent)
	}
}

// LiveBytes collects garbage and returns the size of the live heap in bytes.
func LiveBytes() int64 {
	for range 3 { // weak pointers, pools and finalizers keep data for several collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
