package pack

import (
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// The first dictionary is made of the first object. The second has dictSamples samples, every
	// sampleEvery-th object, because consecutive objects are similar. Each later dictionary is made
	// after renewFactor times as many objects as the previous one, so dictionaries follow changes
	// of the objects.
	sampleEvery = 384
	renewFactor = 16
	// sampleBytes is the maximum size of a sample: dictSamples of them must fit into a dictionary.
	sampleBytes = maxDictBytes / dictSamples
)

// Packer creates dictionaries and packs with the newest. It is safe for concurrent use. Use New to
// create one.
type Packer struct {
	current  atomic.Pointer[Dictionary] // nil before the first dictionary
	siblings *siblings

	mu      sync.Mutex
	samples [][]byte // for the next dictionary: at most dictSamples
	every   int      // one of this number of objects becomes a sample
	objects int      // objects since the last sample
}

// New returns a packer that has no dictionary yet.
func New() *Packer { return &Packer{every: 1, siblings: newSiblings()} }

// Pack packs raw and appends the result to dst. It also returns the dictionary that unpacks the
// result, which is nil before the first dictionary. It neither retains nor changes raw.
func (p *Packer) Pack(dst, raw []byte) (packed []byte, d *Dictionary) {
	d = p.current.Load()
	return d.pack(dst, raw), d
}

// PackSibling packs an object of a group, such as the replicas of a workload. It is like Pack, but
// if another object of the group is similar, it packs raw as a patch of that object. The result is
// then often a tenth as large. The caller should pass the result to Note if it stores it.
func (p *Packer) PackSibling(dst, raw []byte, name Name) (packed []byte, d *Dictionary) {
	if packed, d = p.siblings.pack(dst, raw, name); d != nil {
		return packed, d
	}
	return p.Pack(dst, raw)
}

// Note records an object of a group that PackSibling packed with d. packed are the bytes that the
// caller stores. While the caller stores them, PackSibling may pack other objects against this
// object.
func (p *Packer) Note(name Name, d *Dictionary, packed string, size int) {
	if d != nil && d.base == nil {
		p.siblings.note(name, d, packed, size)
	}
}

// Release records that the caller no longer stores the bytes that it passed to Note, because the
// object changed or was deleted. If other objects are packed against the object, only they keep the
// bytes in memory, and Size counts the bytes.
func (p *Packer) Release(name Name, d *Dictionary, packed string) {
	if d != nil && d.base == nil {
		p.siblings.release(name, packed)
	}
}

// Observe records an object that was packed by Pack or PackSibling, or that is stored as a patch.
// It may copy raw as a sample, and creates a dictionary if it has enough samples. renewed reports
// whether it created one.
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

// Size returns the size of the newest dictionary, of the samples and of the siblings' bases, in
// bytes. It does not count a base's bytes while the caller stores the base's object, because both
// share the bytes. It does not count older dictionaries, to which only packed objects refer.
func (p *Packer) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.current.Load().footprint() + p.siblings.footprint()
	for _, s := range p.samples {
		n += int64(cap(s))
	}
	return n
}
