package pack

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// firstSamples is the number of objects that are stored unpacked before the first dictionary is
	// created from them. They are neighbours, and so similar: one of them is its content, and sampling
	// for the second dictionary starts immediately.
	firstSamples = 12
	// driftBaseline: each window of this many objects is compared with the dictionary's first this
	// many. If a window packs 1.5 times worse, a new dictionary is due.
	driftBaseline = 256
	driftWindow   = 1024
	driftNum      = 3
	driftDen      = 2
	// goodRatio: a dictionary that packs better than this is not replaced, because the old one stays
	// in memory while an object that was packed with it does.
	goodRatio = 1. / 8
	// judgeObjects is the number of objects by which it is decided whether a dictionary packs better
	// than goodRatio.
	judgeObjects = 64
	// laterSamples is the number of samples of every dictionary except the first, one out of each
	// sampleEvery objects. Bytes per object, measured on 50,000 pods: 24 samples, one out of 32
	// objects, 482; 48, out of 16, 480, out of 32, 462, out of 64, 467; 96, out of 16, 466.
	laterSamples = 48
	sampleEvery  = 32
	// sampleBytes limits one sample, so that creating a dictionary does not need much more memory than
	// the dictionary.
	sampleBytes = 64 << 10
)

// Packer creates dictionaries and packs with the newest. It is safe for concurrent use. Create one
// with New.
type Packer struct {
	current  atomic.Pointer[Dictionary] // nil: there is none yet
	siblings *siblings
	well     atomic.Bool // the first objects of the dictionary packed better than goodRatio

	mu       sync.Mutex
	samples  [][]byte // collected for the next dictionary: at most laterSamples
	sampling bool     // a dictionary is due
	objects  int      // since sampling started
	// Of the current dictionary: bytes in and out of its first driftBaseline objects, and of the
	// current window.
	n                 int
	baseRaw, basePack int64
	raw, packed       int64
	// Of its first judgeObjects: bytes in, and out if they had no siblings.
	judged              int
	judgeRaw, judgePack int64
	scratch             []byte
}

// New returns a packer that has no dictionary yet.
func New() *Packer { return &Packer{sampling: true, siblings: newSiblings()} }

// Pack packs raw, appends the result to dst and returns it with the dictionary that unpacks it,
// which is nil if there is none yet. A fast pack needs half the time and half as much memory again,
// and unpacks three times as fast. Pack neither keeps nor changes raw.
func (p *Packer) Pack(dst, raw []byte, fast bool) (packed []byte, d *Dictionary) {
	d = p.current.Load()
	return d.pack(dst, raw, fast), d
}

// PackSibling packs an object of a group, such as the replicas of a workload. It is like Pack
// without fast, but packs against another object of the group if one is similar. The result is then
// often a tenth as large. Pass the result to Note.
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

// Keeps reports whether a pack by d is worth more than a fast pack: it unpacks as fast, or it is a
// sibling of objects that no dictionary packs well.
func (p *Packer) Keeps(d *Dictionary, packed string) bool {
	switch {
	case d == nil || len(packed) == 0:
		return false
	case d.base != nil:
		return !p.well.Load()
	}
	return packed[0] != methodEntropy
}

// Note records an object of a group that PackSibling has packed with d, and that is stored as
// packed. While it is stored, others can be packed against it.
func (p *Packer) Note(name Name, d *Dictionary, packed string, size int) {
	if d != nil && d.base == nil {
		p.siblings.note(name, d, packed, size)
	}
}

// Release records that an object from Note is no longer stored as packed: it has another version,
// or was deleted. If others are packed against it, only they keep its bytes, and Size counts them.
func (p *Packer) Release(name Name, d *Dictionary, packed string) {
	if d != nil && d.base == nil {
		p.siblings.release(name, packed)
	}
}

// Observe records the packed size of an object that Pack has packed with d. It may copy raw as a
// sample, and creates a dictionary when it has enough samples: renewed reports whether it has.
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

// judge determines whether the dictionary alone packs well. Most objects have siblings, so it packs
// them again for that.
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

// sample counts an object while a dictionary is due, and creates it when there are enough samples.
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

// spread moves samples from all over the collection to the front. Neighbours are similar, and only
// the first few form the dictionary.
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

// Size returns the bytes of the newest dictionary, the samples and the bases of siblings, except
// the bytes that a base shares with its object. It does not count older dictionaries, which only
// objects refer to.
func (p *Packer) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.current.Load().footprint() + p.siblings.footprint()
	for _, s := range p.samples {
		n += int64(cap(s))
	}
	return n
}
