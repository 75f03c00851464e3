package pack

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// The first object is the first dictionary. The second has dictSamples samples, of every
	// sampleEvery-th object: neighbours are similar. Each later one is created from renewFactor
	// times as many objects as the one before it, so it follows objects that change.
	sampleEvery = 384
	renewFactor = 16
	// sampleBytes limits one sample. More of it has no room in the dictionary.
	sampleBytes = maxDictBytes / dictSamples
)

// Packer creates dictionaries and packs with the newest. It is safe for concurrent use. Create one
// with New.
type Packer struct {
	current  atomic.Pointer[Dictionary] // nil: there is none yet
	siblings *siblings

	mu      sync.Mutex
	samples [][]byte // collected for the next dictionary: at most dictSamples
	every   int      // number of objects of which one is a sample
	objects int      // since the last sample
}

// New returns a packer that has no dictionary yet.
func New() *Packer { return &Packer{every: 1, siblings: newSiblings()} }

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
	if packed, d = p.siblings.pack(dst, raw, name); d != nil {
		return packed, d
	}
	return p.Pack(dst, raw)
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

// Observe records an object that Pack or PackSibling has packed, or that is stored as a patch. It
// may copy raw as a sample, and creates a dictionary when it has enough samples: renewed reports
// whether it has.
func (p *Packer) Observe(raw []byte) (renewed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.objects++; p.objects < p.every {
		return false
	}
	p.objects = 0
	p.samples = append(p.samples, slices.Clone(raw[:min(len(raw), sampleBytes)]))
	if p.every > 1 && len(p.samples) < dictSamples {
		return false
	}
	p.current.Store(newDictionary(p.samples))
	p.samples, p.every = nil, max(sampleEvery, p.every*renewFactor)
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
