package main

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestPercentOfGarbage(t *testing.T) {
	for _, c := range []struct {
		scanned uint64
		want    int
	}{
		{0, 2400}, {1 << 20, 2400}, {12 << 20, 200}, {95 << 20, 25}, {96 << 20, 25}, {1 << 40, 25},
	} {
		if got := percentOfGarbage(c.scanned); got != c.want {
			t.Errorf("%d bytes: %d %%, want %d", c.scanned, got, c.want)
		}
	}
}

// TestBoundGarbage checks that the percentage follows the size of the live heap, up and down.
func TestBoundGarbage(t *testing.T) {
	boundGarbage()
	percent := func() uint64 {
		samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		runtime.GC()
		metrics.Read(samples)
		return samples[0].Value.Uint64()
	}
	live := make([]byte, 256<<20)
	testenv.Eventually(t, t.Context(), "a large heap has a quarter of garbage", func() bool { return percent() == gcPercent })
	runtime.KeepAlive(live)
	live = nil
	testenv.Eventually(t, t.Context(), "a small heap has more", func() bool { return percent() > gcPercent })
}
