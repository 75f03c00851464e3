package pack

import (
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
)

func BenchmarkPack(b *testing.B) {
	for _, enc := range []wire.Encoding{wire.Protobuf, wire.JSON} {
		raws := podsim.Spread(enc.String(), 1000)
		var samples [][]byte
		for i, r := range raws { // the store packs objects without their uid
			raws[i] = withoutUID(b, enc, r)
			if i%(len(raws)/dictSamples) == 0 {
				samples = append(samples, raws[i])
			}
		}
		d := newDictionary(samples)
		var raw, packedBytes int
		var packs [][]byte
		for _, r := range raws {
			packed := d.pack(nil, r)
			packs = append(packs, packed)
			raw += len(r)
			packedBytes += len(packed)
		}
		b.Run(enc.String(), func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				dst = d.pack(dst[:0], raws[i%len(raws)])
			}
			b.ReportMetric(float64(raw)/float64(packedBytes), "ratio")
			b.ReportMetric(float64(packedBytes)/float64(len(raws)), "packed-B")
		})
		b.Run(enc.String()+"/unpack", func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var err error
				if dst, err = d.unpack(dst[:0], packs[i%len(raws)], len(raws[i%len(raws)])); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
