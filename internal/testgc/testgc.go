// Package testgc has tests collect garbage less often than programs do: they make much of it, and
// hold little.
package testgc

import (
	"flag"
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
