package pack

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// driftBaseline: each window of this many objects is compared with the dictionary's first this
	// many. If a window packs 1.5 times worse, a new dictionary is due.
	driftBaseline = 256
	driftWindow   = 1024
	driftNum      = 3
	driftDen      = 2
	// goodRatio: a dictionary that packs better than this is not replaced, because the old one stays
	// in memory while an object that was packed with it does.
	goodRatio = 1. / 6
	// The first object is the first dictionary, and sampling for the second starts immediately. Of
	// that and of later ones, one out of sampleEvery objects is a sample: neighbours are similar.
	sampleEvery = 384
	// sampleBytes limits one sample. More of it has no room in the dictionary.
	sampleBytes = maxDictBytes / dictSamples
)

// Packer creates dictionaries and packs with the newest. It is safe for concurrent use. Create one
// with New.
type Packer struct {
	current  atomic.Pointer[Dictionary] // nil: there is none yet
	siblings *siblings

	mu       sync.Mutex
	samples  [][]byte // collected for the next dictionary: at most dictSamples
	sampling bool     // a dictionary is due
	objects  int      // since sampling started
	// Of the current dictionary: bytes in and out of its first driftBaseline objects, and of the
	// current window.
	n                 int
	baseRaw, basePack int64
	raw, packed       int64
}

// New returns a packer that has no dictionary yet.
func New() *Packer { return &Packer{sampling: true, siblings: newSiblings()} }

// Pack packs raw, appends the result to dst and returns it with the dictionary that unpacks it,
// which is nil if there is none yet. It neither keeps nor changes raw.
func (p *Packer) Pack(dst, raw []byte) (packed []byte, d *Dictionary) {
	d = p.current.Load()
	return d.pack(dst, raw), d
}

// PackSibling packs an object of a group, such as the replicas of a workload. It is like Pack, but
// packs against another object of the group if one is similar. The result is then often a tenth as
// large. Pass the result to Note.
func (p *Packer) PackSibling(dst, raw []byte, name Name) (packed []byte, d *Dictionary) {
	begin := len(dst)
	packed, d, near := p.siblings.pack(dst, raw, name)
	if d != nil && near {
		return packed, d
	}
	middle := len(packed)
	packed, other := p.Pack(packed, raw)
	if d != nil && middle-begin <= len(packed)-middle {
		return packed[:middle], d
	}
	return append(packed[:begin], packed[middle:]...), other
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

// Observe records the packed size of an object that Pack has packed with d; d is nil if the object
// is a patch. It may copy raw as a sample, and creates a dictionary when it has enough samples:
// renewed reports whether it has.
func (p *Packer) Observe(d *Dictionary, raw []byte, packed int) (renewed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sampling {
		return p.sample(raw)
	}
	if d == nil || d != p.current.Load() {
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

// sample counts an object while a dictionary is due, and creates it when there are enough samples.
func (p *Packer) sample(raw []byte) (made bool) {
	first := p.current.Load() == nil
	if p.objects++; !first && p.objects%sampleEvery != 0 {
		return false
	}
	p.samples = append(p.samples, slices.Clone(raw[:min(len(raw), sampleBytes)]))
	if !first && len(p.samples) < dictSamples {
		return false
	}
	p.current.Store(newDictionary(p.samples))
	p.samples, p.sampling, p.objects = nil, first, 0
	p.n, p.baseRaw, p.basePack, p.raw, p.packed = 0, 0, 0, 0, 0
	return true
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
