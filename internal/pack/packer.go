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
	// By so many objects each dictionary is judged, whether it packs better than that.
	judgeObjects = 64
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
	current  atomic.Pointer[Dictionary] // nil: there is none yet
	siblings *siblings
	well     atomic.Bool // the first objects of the dictionary packed better than goodRatio

	mu       sync.Mutex
	samples  [][]byte // collected for the next dictionary: at most laterSamples
	sampling bool     // a dictionary is due
	objects  int      // since sampling began
	// Of the current dictionary: bytes in and out of its first driftBaseline
	// objects, and of the window that runs.
	n                 int
	baseRaw, basePack int64
	raw, packed       int64
	// Of its first judgeObjects, bytes in and out if they had no siblings.
	judged              int
	judgeRaw, judgePack int64
	scratch             []byte
}

// New returns a packer that has no dictionary yet.
func New() *Packer { return &Packer{sampling: true, siblings: newSiblings()} }

// Pack packs raw, appends the result to dst and returns it with the dictionary that unpacks it,
// which is nil if there is none yet. A fast pack takes half the time, for half as much memory
// again, and unpacks three times as fast. Pack neither keeps nor changes raw.
func (p *Packer) Pack(dst, raw []byte, fast bool) (packed []byte, d *Dictionary) {
	d = p.current.Load()
	return d.pack(dst, raw, fast), d
}

// PackSibling packs an object of a group, such as the replicas of a workload. It does what Pack
// does without fast, but packs against another object of the group if one is like it. The result is
// then often a tenth as large. Tell Note of the result.
func (p *Packer) PackSibling(dst, raw []byte, name Name) (packed []byte, d *Dictionary) {
	begin := len(dst)
	packed, d, near := p.siblings.pack(dst, raw, name, p.well.Load())
	if d != nil && near {
		return packed, d
	}
	middle := len(packed)
	packed, other := p.Pack(packed, raw, false)
	if d != nil && middle-begin <= len(packed)-middle {
		return packed[:middle], d
	}
	return append(packed[:begin], packed[middle:]...), other
}

// Keeps reports whether what d has packed is worth more than a fast pack of it: it unpacks as fast,
// or it is a sibling of objects that no dictionary packs well.
func (p *Packer) Keeps(d *Dictionary, packed string) bool {
	switch {
	case d == nil || len(packed) == 0:
		return false
	case d.base != nil:
		return !p.well.Load()
	}
	return packed[0] != methodEntropy
}

// Note takes note of an object of a group that PackSibling has packed with d, and that is held as
// packed. As long as somebody holds that, others can be packed against it.
func (p *Packer) Note(name Name, d *Dictionary, packed string, size int) {
	if d != nil && d.base == nil {
		p.siblings.note(name, d, packed, size)
	}
}

// Release takes note that an object that Note was told of is held no more as packed: it has another
// version, or is gone. Should others be packed against it, they alone keep its bytes, and Size
// counts them.
func (p *Packer) Release(name Name, d *Dictionary, packed string) {
	if d != nil && d.base == nil {
		p.siblings.release(name, packed)
	}
}

// Observe takes note of an object that Pack has packed with d to so many bytes. It
// may take a copy of raw as a sample, and makes a dictionary once there are enough
// of them: renewed reports whether it has done so.
func (p *Packer) Observe(d *Dictionary, raw []byte, packed int, fast bool) (renewed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.judged < judgeObjects {
		p.judge(d, raw, packed, fast)
	}
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

// judge finds out whether the dictionary alone packs well. Most objects have siblings, so they are
// packed once more for that.
func (p *Packer) judge(d *Dictionary, raw []byte, packed int, fast bool) {
	current := p.current.Load()
	if current == nil {
		return
	}
	if d != current || fast {
		p.scratch = current.pack(p.scratch[:0], raw, false)
		packed = len(p.scratch)
	}
	p.judgeRaw += int64(len(raw))
	p.judgePack += int64(packed)
	if p.judged++; p.judged == judgeObjects {
		p.well.Store(float64(p.judgePack) <= goodRatio*float64(p.judgeRaw))
		p.judgeRaw, p.judgePack, p.scratch = 0, 0, nil
	}
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
	p.n, p.baseRaw, p.basePack, p.raw, p.packed, p.judged = 0, 0, 0, 0, 0, 0
	p.siblings.learner.relearn()
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

// Size returns the bytes that the newest dictionary, the samples and the bases of siblings take,
// but for what a base shares with its object. Older dictionaries, which only objects point to, are
// not counted.
func (p *Packer) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.current.Load().footprint() + p.siblings.footprint()
	for _, s := range p.samples {
		n += int64(cap(s))
	}
	return n
}
