package store

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// BenchmarkHeapUnderChange reports the heap of a store of 10,000 pods after a list, and after each
// pod has changed once, twice and three times. One pod changes at a time, in scattered order. It
// also reports the mean time of a change.
func BenchmarkHeapUnderChange(b *testing.B) {
	for _, of := range []struct {
		what string
		sim  *podsim.Pods
	}{{"alike", podsim.New(10_000, 1)}, {"unlike", podsim.NewUnlike(10_000, 1)}} {
		b.Run(of.what, func(b *testing.B) {
			podsim.Encode(wire.Protobuf.String(), of.sim.Pod(0)) // fill the encoder's caches
			for b.Loop() {
				n := of.sim.Len()
				before := testenv.LiveBytes()
				s := newStore(b, Config{Encoding: wire.Protobuf})
				w := s.Writer(Scope{})
				var m wire.Meta
				var busy time.Duration
				put := func(i, version int) {
					pod := of.sim.Pod(i)
					pod.ResourceVersion = strconv.Itoa(version*n + i + 1)
					raw := podsim.Encode(wire.Protobuf.String(), pod)
					check.NoError(b, wire.ReadMeta(wire.Protobuf, raw, &m))
					began := time.Now()
					check.NoError(b, w.Put(&m, raw))
					if version > 0 {
						w.Flush()
						busy += time.Since(began)
					}
				}
				for version := range 4 {
					for i := range n {
						if version > 0 {
							i = i * 7919 % n
						}
						put(i, version)
					}
					w.Flush()
					b.ReportMetric(float64(testenv.LiveBytes()-before)/1e6, fmt.Sprintf("MB/%d", version))
					b.Logf("changed %d times\n%s", version, s.Memory())
				}
				b.ReportMetric(float64(busy.Nanoseconds())/float64(3*n), "ns/change")
				runtime.KeepAlive(s)
			}
		})
	}
}
