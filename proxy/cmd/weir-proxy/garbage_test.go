package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestGCPercentFor: a quarter of little, no more than the bound of much, and never nearly nothing.
func TestGCPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 25, 100 << 20: 25, 192 << 20: 25, 240 << 20: 20, 400 << 20: 12, 4 << 30: 10} {
		if got := gcPercentFor(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// TestLiveBytes: what is kept counts.
func TestLiveBytes(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	before := liveBytes()
	kept := make([]byte, 64<<20)
	runtime.GC()
	if grown := int64(liveBytes() - before); grown < 60<<20 {
		t.Errorf("64 MiB more are live, and it says %d", grown)
	}
	runtime.KeepAlive(kept)
}
