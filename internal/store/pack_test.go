package store

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/podsim"
	"github.com/weirproject/weir/internal/wire"
)

func TestPackRatio(t *testing.T) {
	for _, tc := range []struct {
		enc   wire.Encoding
		ratio float64
	}{{wire.Protobuf, 9}, {wire.JSON, 14}} {
		raws := simPods(t, tc.enc, 200)
		p := newPacker(tc.enc, raws[:dictAfter], dictSamples)
		var raw, packed int
		for _, r := range raws {
			form := p.pack(nil, r, false)
			raw += len(r)
			packed += len(form)
			back, err := p.unpack([]byte("before"), form, len(r))
			if err != nil || string(back) != "before"+string(r) {
				t.Fatalf("%s: does not come back: %v", tc.enc, err)
			}
		}
		if got := float64(raw) / float64(packed); got < tc.ratio {
			t.Errorf("%s packs %.1f:1, want %.0f:1", tc.enc, got, tc.ratio)
		}
	}
}

// TestPackAnything: objects that are nothing like the samples, of all sizes.
func TestPackAnything(t *testing.T) {
	rnd := newRand(1)
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for _, samples := range [][][]byte{
		simPods(t, wire.Protobuf, dictAfter), {{}, {}, {1}}, nil, {random(100)}, {random(200_000), random(10)}, {bytes.Repeat([]byte("a"), 100_000)},
	} {
		p := newPacker(wire.Protobuf, samples, dictSamples)
		for _, n := range []int{0, 1, 7, 15, 16, 17, 100, 5000, 65_535, 65_536, 300_000, 3 << 20} {
			for _, raw := range [][]byte{random(n), bytes.Repeat([]byte("k"), n), bytes.Repeat([]byte("text-%d"), n/7)} {
				form := p.pack(nil, raw, false)
				if len(form) > len(raw)+1 {
					t.Errorf("%d bytes became %d", len(raw), len(form))
				}
				back, err := p.unpack(nil, form, len(raw))
				if err != nil || !bytes.Equal(back, raw) {
					t.Fatalf("%d bytes do not come back: %v", n, err)
				}
			}
		}
	}
}

// FuzzUnpack: damaged memory is an error, not a crash.
func FuzzUnpack(f *testing.F) {
	raws := simPods(f, wire.Protobuf, dictAfter+3)
	p := newPacker(wire.Protobuf, raws[:dictAfter], dictSamples)
	for _, r := range raws[dictAfter:] {
		f.Add(p.pack(nil, r, false), len(r))
	}
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, form []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		back, err := p.unpack(nil, form, size)
		if err == nil && len(form) > 0 && form[0] != packedRaw && len(back) != size {
			t.Fatalf("%d bytes, want %d", len(back), size)
		}
	})
}

// TestSecondGeneration: the first dictionary, of neighbours, soon gives way to one of objects from all over.
func TestSecondGeneration(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	sim := podsim.New(3000, 1)
	for i := range sim.Len() {
		pod := sim.Pod(i)
		pod.ResourceVersion = strconv.Itoa(1000 + i)
		putPod(t, w, pod)
	}
	w.Flush()
	type sum struct{ objects, bytes int }
	sums := map[*generation]*sum{}
	for o := range s.Snapshot().All() {
		if sums[o.gen] == nil {
			sums[o.gen] = &sum{}
		}
		sums[o.gen].objects++
		sums[o.gen].bytes += len(o.packed)
	}
	if len(sums) != 2 {
		t.Fatalf("%d generations", len(sums))
	}
	second := sums[s.gens.current.Load()]
	if n := sim.Len() - second.objects; n < dictOf*sampleEvery || n > dictOf*sampleEvery+2*batchChanges {
		t.Errorf("the first %d have the first dictionary", n)
	}
	if size := second.bytes / second.objects; size > 500 {
		t.Errorf("a pod takes %d bytes", size)
	}
}

// TestGenerations: a dictionary is made of the first dozen, and a new one when
// objects drift away from it; old objects keep theirs.
func TestGenerations(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	raws := simPods(t, wire.Protobuf, 2000)
	for _, raw := range raws[:dictAfter-1] {
		put(t, w, raw)
	}
	w.Flush()
	if g := s.gens.current.Load(); g.packer != nil {
		t.Fatal("a dictionary after eleven objects")
	}
	for _, raw := range raws[dictAfter-1:] {
		put(t, w, raw)
	}
	w.Flush()
	first := s.gens.current.Load()
	if first.packer == nil {
		t.Fatal("no dictionary")
	}
	rnd := newRand(2)
	for i := range 4000 {
		pod := smallPod("other", "n"+strconv.Itoa(i), i, 50_000+i, nil, "")
		pod.Annotations = map[string]string{"data": noise(rnd, 400)}
		putPod(t, w, pod)
	}
	w.Flush()
	second := s.gens.current.Load()
	if second == first {
		t.Fatal("objects drifted away and the dictionary stayed")
	}
	for i := range 4000 {
		pod := smallPod("other", "n"+strconv.Itoa(i), i, 60_000+i, nil, "")
		pod.Annotations = map[string]string{"data": noise(rnd, 400)}
		putPod(t, w, pod)
	}
	w.Flush()
	if s.gens.current.Load() != second {
		t.Error("objects that pack badly but alike made one more dictionary")
	}
	n := 0
	for o := range s.Snapshot().All() {
		if raw, err := o.AppendRaw(nil); err != nil || len(raw) != o.Size() {
			t.Fatalf("%s: %v", o.Key(), err)
		}
		n++
	}
	if n != 6000 {
		t.Errorf("%d objects", n)
	}
}

// noise is text that does not pack.
func noise(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rnd.IntN(90))
	}
	return string(b)
}

// TestFirstObjectsArePackedToo: those that came before there was a dictionary are
// packed when it is made, if their batch is not applied yet.
func TestFirstObjectsArePackedToo(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	for _, raw := range simPods(t, wire.Protobuf, 20) {
		put(t, w, raw)
	}
	w.Flush()
	for o := range s.Snapshot().All() {
		if o.gen.packer == nil || len(o.packed) > o.Size()/2 {
			t.Errorf("%s takes %d of %d bytes", o.Key(), len(o.packed), o.Size())
		}
	}
}
