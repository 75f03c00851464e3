package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcPercent is how much of what is live may be garbage. What is live is packed and nearly
	// without pointers: to look at it costs little, and what slow clients and many watches leave
	// behind does not add up.
	gcPercent = 25
	// maxGarbage bounds the garbage, in bytes, of a process with many connections, down to
	// minGCPercent: less would be collected all the time.
	maxGarbage   = 48 << 20
	minGCPercent = 10
	// garbageInterval is the time between two looks at what is live.
	garbageInterval = 2 * time.Second
)

// limitGarbage keeps the garbage small, unless GOGC says otherwise. One goroutine does so until ctx
// ends.
func limitGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	go func() {
		tick := time.NewTicker(garbageInterval)
		defer tick.Stop()
		for set := gcPercent; ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if want := gcPercentFor(liveBytes()); want != set {
				set = want
				debug.SetGCPercent(set)
			}
		}
	}()
}

// gcPercentFor returns the percentage for so many live bytes.
func gcPercentFor(live uint64) int {
	return int(max(minGCPercent, min(gcPercent, maxGarbage*100/max(live, 1))))
}

// liveBytes returns what the last collection has found live, stacks included: the percentage is of
// both.
func liveBytes() (sum uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += s.Value.Uint64()
		}
	}
	return sum
}
