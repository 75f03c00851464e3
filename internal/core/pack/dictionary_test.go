package pack

import (
	"bytes"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestRatio(t *testing.T) {
	for _, tc := range []struct {
		enc   wire.Encoding
		ratio float64
	}{{wire.Protobuf, 6}, {wire.JSON, 9}} {
		raws := podsim.Spread(tc.enc.String(), 200)
		d := newDictionary(raws[:dictSamples])
		var raw, packedBytes int
		for _, r := range raws {
			packed := d.pack(nil, r)
			raw += len(r)
			packedBytes += len(packed)
			back, err := d.unpack([]byte("before"), packed, len(r))
			if err != nil || string(back) != "before"+string(r) {
				t.Fatalf("%s: does not come back: %v", tc.enc, err)
			}
		}
		if got := float64(raw) / float64(packedBytes); got < tc.ratio {
			t.Errorf("%s packs %.1f:1, want %.0f:1", tc.enc, got, tc.ratio)
		}
	}
}

// TestPackAnything packs objects of all sizes that have nothing in common with the samples.
func TestPackAnything(t *testing.T) {
	testenv.SkipUnderRace(t)
	rnd := newRand(1)
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for _, samples := range [][][]byte{
		podsim.Spread(wire.Protobuf.String(), dictSamples), {{}, {}, {1}}, nil, {random(100)}, {random(200_000), random(10)}, {bytes.Repeat([]byte("a"), 100_000)},
	} {
		d := newDictionary(samples)
		for _, n := range []int{0, 1, 7, 15, 16, 17, 100, 5000, 65_535, 65_536, 300_000, 3 << 20} {
			for _, raw := range [][]byte{random(n), bytes.Repeat([]byte("k"), n), bytes.Repeat([]byte("text-%d"), n/7)} {
				packed := d.pack(nil, raw)
				if len(packed) > len(raw)+1 {
					t.Errorf("%d bytes became %d", len(raw), len(packed))
				}
				back, err := d.unpack(nil, packed, len(raw))
				if err != nil || !bytes.Equal(back, raw) {
					t.Fatalf("%d bytes do not come back: %v", n, err)
				}
			}
		}
	}
}

// FuzzUnpack checks that Unpack does not panic if the bytes are damaged.
func FuzzUnpack(f *testing.F) {
	raws := podsim.Spread(wire.Protobuf.String(), dictSamples+3)
	d := newDictionary(raws[:dictSamples])
	for _, r := range raws[dictSamples:] {
		f.Add(d.pack(nil, r), len(r))
	}
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		back, err := d.unpack(nil, packed, size)
		if err == nil && len(packed) > 0 && packed[0] != methodStored && len(back) != size {
			t.Fatalf("%d bytes, want %d", len(back), size)
		}
	})
}
