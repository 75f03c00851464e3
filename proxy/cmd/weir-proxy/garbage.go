package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is how much garbage there may be, in percent of what is live. What is live is
	// packed and nearly without pointers: a collection of it costs little, and the garbage that
	// slow clients and many watches leave does not add up.
	gcPercent = 25
	// minGarbage is how much garbage there may be in any case, in bytes. Otherwise a proxy with
	// little live memory collects dozens of times a second when clients without credentials send
	// large heads or open many connections, and then known clients wait for seconds.
	minGarbage = 24 << 20
)

// boundGarbage sets the percentage of garbage for what is live now, and again after each collection
// for as long as the process runs.
func boundGarbage() {
	debug.SetGCPercent(percentOfGarbage(scanned()))
	collected := new(*byte) // with a pointer, so that it does not share its memory with others
	runtime.AddCleanup(collected, func(struct{}) { boundGarbage() }, struct{}{})
}

// percentOfGarbage returns the percentage for a number of bytes that the last collection scanned.
func percentOfGarbage(scanned uint64) int {
	return max(gcPercent, int(minGarbage*100/max(scanned, 1<<20)))
}

// scanned returns the bytes to which the percentage applies: what the last collection left in the
// heap, and all stacks.
func scanned() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() + samples[1].Value.Uint64()
}
