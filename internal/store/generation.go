package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirproject/weir/internal/wire"
)

const (
	// dictAfter objects are held as they came; then a dictionary is made of them.
	// They are neighbours, and so alike: it is one to begin with, and the next
	// one follows as soon as there are samples.
	dictAfter = 12
	// A generation is judged by each window of so many objects against its
	// first so many: when they pack driftFactor worse, it is time for a new one.
	driftBaseline = 256
	driftWindow   = 1024
	driftNum      = 3 // 1.5 times worse
	driftDen      = 2
	// What packs better than this is not worth a new dictionary, which stays for
	// as long as an object does that was packed with it.
	goodRatio = 1. / 8
	// Every generation but the first is made of so many samples, one of each
	// sampleEvery objects. Measured on 50,000 pods, in bytes each: 24 samples, one
	// of 32 objects, 482; 48, of 16, 480, and of 32, 462, and of 64, 467; 96 of 16, 466.
	dictOf      = 48
	sampleEvery = 32
	// sampleBytes bounds what one sample contributes: a generation's making
	// must not need much more memory than the generation.
	sampleBytes = 64 << 10
)

// kind is what all objects of a store share. It is apart from the store so that
// an object that somebody keeps does not keep the store's table.
type kind struct {
	encoding wire.Encoding
	decode   func(raw []byte) (any, error)
	cooler   *cooler
}

// generation is one dictionary. Objects point to the one they were packed with;
// it goes when the last of them goes. One without a packer holds objects as
// they came. A value that was put has one of its own, without bytes to read
// labels from.
type generation struct {
	*kind
	packer  packer
	isValue bool
	labels  map[string]string // of the value
}

func (g *generation) unpack(dst []byte, packed string, size int) ([]byte, error) {
	bytes := unsafe.Slice(unsafe.StringData(packed), len(packed)) // read only
	if g.packer == nil {
		return append(dst, bytes...), nil
	}
	return g.packer.unpack(dst, bytes, size)
}

// generations makes dictionaries and chooses the one for the next object. Safe
// for concurrent use: writers share it.
type generations struct {
	kind    *kind
	current atomic.Pointer[generation]

	mu       sync.Mutex
	samples  [][]byte // collected for the next generation; nil when none is due
	sampling bool
	seen     int // objects since sampling began
	// Of the current generation: bytes in and out of the first driftBaseline
	// objects, and of the window that runs.
	n                 int
	baseRaw, basePack int64
	raw, packed       int64
}

func newGenerations(k *kind) *generations {
	g := &generations{kind: k, sampling: true}
	g.current.Store(&generation{kind: k})
	return g
}

// pack packs raw into dst and tells with which generation.
func (gs *generations) pack(dst, raw []byte, hurry bool) ([]byte, *generation) {
	g := gs.current.Load()
	if g.packer == nil {
		return append(dst, raw...), g
	}
	return g.packer.pack(dst, raw, hurry), g
}

// observe is told of each object packed. fresh: a generation was just made.
func (gs *generations) observe(g *generation, raw []byte, packed int, hurry bool) (fresh bool) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.sampling {
		return gs.sample(raw)
	}
	if hurry || g != gs.current.Load() {
		return false
	}
	gs.n++
	if gs.n <= driftBaseline {
		gs.baseRaw += int64(len(raw))
		gs.basePack += int64(packed)
		return false
	}
	gs.raw += int64(len(raw))
	gs.packed += int64(packed)
	if (gs.n-driftBaseline)%driftWindow == 0 {
		// packed/raw of the window > 1.5 × packed/raw of the baseline
		was := float64(gs.basePack) / float64(max(gs.baseRaw, 1))
		is := float64(gs.packed) / float64(max(gs.raw, 1))
		gs.sampling = is*driftDen > was*driftNum && is > goodRatio
		gs.raw, gs.packed = 0, 0
	}
	return false
}

// sample is told of an object while samples are collected, and makes a generation
// when there are enough.
func (gs *generations) sample(raw []byte) (made bool) {
	first := gs.current.Load().packer == nil
	enough, whole := dictOf, dictSamples
	if first {
		enough, whole = dictAfter, 1 // the others are like it
	}
	if gs.seen++; !first && gs.seen%sampleEvery != 0 {
		return false
	}
	gs.samples = append(gs.samples, slices.Clone(raw[:min(len(raw), sampleBytes)]))
	if len(gs.samples) < enough {
		return false
	}
	gs.current.Store(&generation{kind: gs.kind, packer: newPacker(gs.kind.encoding, spread(gs.samples), whole)})
	gs.samples, gs.sampling, gs.seen = nil, first, 0
	gs.n, gs.baseRaw, gs.basePack, gs.raw, gs.packed = 0, 0, 0, 0, 0
	return true
}

// spread puts samples from all over the collection first: neighbours are alike,
// and only the first few make up the dictionary.
func spread(samples [][]byte) [][]byte {
	out := make([][]byte, 0, len(samples))
	step := max(1, len(samples)/dictSamples)
	for from := range step {
		for i := from; i < len(samples); i += step {
			out = append(out, samples[i])
		}
	}
	return out
}

// footprint is what the current generation takes. Older ones, which only
// objects point to, are not counted.
func (gs *generations) footprint() int64 {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	var n int64
	for _, s := range gs.samples {
		n += int64(cap(s))
	}
	if p := gs.current.Load().packer; p != nil {
		n += p.footprint()
	}
	return n
}
