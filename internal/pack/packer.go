package pack

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// So many objects are held as they came. Then a first dictionary is made of
	// them. They are neighbours, and so alike: one of them is its content, and
	// samples for the second dictionary are collected at once.
	firstSamples = 12
	// A dictionary is judged by each window of so many objects against its first
	// so many: when they pack 1.5 times worse, a new one is due.
	driftBaseline = 256
	driftWindow   = 1024
	driftNum      = 3
	driftDen      = 2
	// What packs better than this is not worth a new dictionary: the old one stays
	// for as long as an object does that was packed with it.
	goodRatio = 1. / 8
	// Every dictionary but the first is made of so many samples, one of each
	// sampleEvery objects. Measured on 50,000 pods, in bytes each: 24 samples, one
	// of 32 objects, 482; 48, of 16, 480, and of 32, 462, and of 64, 467; 96 of 16, 466.
	laterSamples = 48
	sampleEvery  = 32
	// sampleBytes bounds one sample, so that making a dictionary does not need much
	// more memory than the dictionary.
	sampleBytes = 64 << 10
)

// Packer makes dictionaries and packs with the newest. It is safe for concurrent
// use. Use New to make one.
type Packer struct {
	current atomic.Pointer[Dictionary] // nil: there is none yet

	mu       sync.Mutex
	samples  [][]byte // collected for the next dictionary: at most laterSamples
	sampling bool     // a dictionary is due
	objects  int      // since sampling began
	// Of the current dictionary: bytes in and out of its first driftBaseline
	// objects, and of the window that runs.
	n                 int
	baseRaw, basePack int64
	raw, packed       int64
}

// New returns a packer that has no dictionary yet.
func New() *Packer { return &Packer{sampling: true} }

// Pack appends the packed form of raw to dst and returns it with the dictionary
// that unpacks it, which is nil if there is none yet. A fast pack takes half the
// time, for half as much memory again, and unpacks three times as fast. Pack
// neither keeps nor changes raw.
func (p *Packer) Pack(dst, raw []byte, fast bool) (packed []byte, d *Dictionary) {
	d = p.current.Load()
	return d.pack(dst, raw, fast), d
}

// Observe takes note of an object that Pack has packed with d to so many bytes. It
// may take a copy of raw as a sample, and makes a dictionary once there are enough
// of them: renewed reports whether it has done so.
func (p *Packer) Observe(d *Dictionary, raw []byte, packed int, fast bool) (renewed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sampling {
		return p.sample(raw)
	}
	if fast || d != p.current.Load() {
		return false
	}
	p.n++
	if p.n <= driftBaseline {
		p.baseRaw += int64(len(raw))
		p.basePack += int64(packed)
		return false
	}
	p.raw += int64(len(raw))
	p.packed += int64(packed)
	if (p.n-driftBaseline)%driftWindow == 0 {
		// packed/raw of the window > 1.5 × packed/raw of the baseline
		was := float64(p.basePack) / float64(max(p.baseRaw, 1))
		is := float64(p.packed) / float64(max(p.raw, 1))
		p.sampling = is*driftDen > was*driftNum && is > goodRatio
		p.raw, p.packed = 0, 0
	}
	return false
}

// sample counts an object while a dictionary is due, and makes it when there are
// enough samples.
func (p *Packer) sample(raw []byte) (made bool) {
	first := p.current.Load() == nil
	enough, whole := laterSamples, dictSamples
	if first {
		enough, whole = firstSamples, 1
	}
	if p.objects++; !first && p.objects%sampleEvery != 0 {
		return false
	}
	p.samples = append(p.samples, slices.Clone(raw[:min(len(raw), sampleBytes)]))
	if len(p.samples) < enough {
		return false
	}
	p.current.Store(newDictionary(spread(p.samples), whole))
	p.samples, p.sampling, p.objects = nil, first, 0
	p.n, p.baseRaw, p.basePack, p.raw, p.packed = 0, 0, 0, 0, 0
	return true
}

// spread puts samples from all over the collection first. Neighbours are alike, and
// only the first few make up the dictionary.
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

// Size returns the bytes that the newest dictionary and the samples take. Older
// dictionaries, which only objects point to, are not counted.
func (p *Packer) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.current.Load().footprint()
	for _, s := range p.samples {
		n += int64(cap(s))
	}
	return n
}
