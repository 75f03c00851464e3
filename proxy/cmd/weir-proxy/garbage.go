package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is how much garbage the process may have, in percent of the live memory. Live memory
	// is packed and has nearly no pointers, so a collection costs little. Frequent collections keep
	// the garbage of slow clients and many watches small.
	gcPercent = 25
	// minGarbage is how much garbage the process may have in any case, in bytes. Otherwise a proxy
	// with little live memory would collect garbage dozens of times a second when clients without
	// credentials send large heads or open many connections. Known clients would then wait for
	// seconds.
	minGarbage = 24 << 20
)

// boundGarbage sets the garbage percentage for the current live memory. It sets the percentage
// again after each collection, as long as the process runs.
func boundGarbage() {
	debug.SetGCPercent(percentOfGarbage(scanned()))
	collected := new(*byte) // contains a pointer, so that it shares no memory block with other objects
	runtime.AddCleanup(collected, func(struct{}) { boundGarbage() }, struct{}{})
}

// percentOfGarbage returns the garbage percentage for the number of bytes that the last collection
// has scanned.
func percentOfGarbage(scanned uint64) int {
	return max(gcPercent, int(minGarbage*100/max(scanned, 1<<20)))
}

// scanned returns the number of bytes to which the percentage applies: the heap that was live after
// the last collection, and all stacks.
func scanned() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}
