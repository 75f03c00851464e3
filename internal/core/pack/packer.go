package pack

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/compress"
	"github.com/weirproject/weir/internal/core/views"
)

const (
	// The first dictionary consists of the first object. The second one consists of dictSamples
	// samples: every sampleEvery-th object, because consecutive objects are too similar. For each
	// later dictionary, the distance between two samples is renewFactor times as long as for the
	// previous dictionary. So dictionaries follow changes of the objects.
	sampleEvery = 384
	renewFactor = 16
	// sampleBytes is the maximum size of a sample: dictSamples samples must fit into a dictionary.
	sampleBytes = maxDictBytes / dictSamples
)

// Packer creates dictionaries, and packs objects with the newest dictionary. It is safe for
// concurrent use. Use New to create one.
type Packer struct {
	current  atomic.Pointer[Dictionary] // nil before the first dictionary
	siblings *siblings

	mu      sync.Mutex
	samples [][]byte // for the next dictionary: at most dictSamples
	every   int      // the distance between two samples, as a number of objects
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

// PackSibling packs an object of a group, such as the replicas of a workload. If another object of
// the group is similar, PackSibling packs raw as a patch of that object, and the result is often a
// tenth as large. Otherwise it does the same as Pack. A caller that stores the result should pass
// it to Note. If name.Group is empty, the object has no group: PackSibling is the same as Pack, and
// Note and Release are no-ops.
func (p *Packer) PackSibling(dst, raw []byte, name Name) (packed []byte, d *Dictionary) {
	if packed, d = p.siblings.pack(dst, raw, name); d != nil {
		return packed, d
	}
	return p.Pack(dst, raw)
}

// Note records an object of a group that PackSibling packed with d. packed contains the bytes that
// the caller stores, and size is the object's size before packing. Until the caller calls Release,
// PackSibling may pack other objects against this object.
func (p *Packer) Note(name Name, d *Dictionary, packed string, size int) {
	if d != nil && d.base == nil && name.Group != "" {
		p.siblings.note(name, d, packed, size)
	}
}

// Release records that the caller no longer stores the bytes that it passed to Note, because the
// object changed or was deleted. If other objects are packed against the object, they keep the
// bytes in memory, and Size then counts the bytes.
func (p *Packer) Release(name Name, d *Dictionary, packed string) {
	if d != nil && d.base == nil && name.Group != "" {
		p.siblings.release(name, packed)
	}
}

// Observe records an object that the caller stores. It may copy raw as a sample, and creates a
// dictionary if it has enough samples. A caller that calls Observe with its first object before it
// packs the object has a dictionary for every object.
func (p *Packer) Observe(raw []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.objects++; p.objects < p.every {
		return
	}
	p.objects = 0
	p.samples = append(p.samples, slices.Clone(raw[:min(len(raw), sampleBytes)]))
	if p.every > 1 && len(p.samples) < dictSamples {
		return
	}
	p.current.Store(newDictionary(p.samples))
	p.samples, p.every = nil, max(sampleEvery, p.every*renewFactor)
}

// Size returns the size of the newest dictionary, of the samples and of the siblings' bases, in
// bytes. While the caller stores a base's own object, Size does not count the base's bytes, because
// the base and the object share them. Size does not count older dictionaries, because only packed
// objects refer to them.
func (p *Packer) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.current.Load().footprint() + p.siblings.footprint()
	for _, s := range p.samples {
		n += int64(cap(s))
	}
	return n
}

// ErrCorrupt is returned for bytes that were not packed with the dictionary, and for a patch that
// does not fit its base.
var ErrCorrupt = errors.New("pack: corrupt")

// The first byte of a packed object is its packing method.
const (
	methodStored  = iota // not compressed
	methodS2             // S2 with the dictionary
	methodSibling        // as a patch of a sibling
)

const (
	dictSamples  = 4           // the number of samples in a dictionary
	maxDictBytes = 32<<10 - 16 // S2 accepts up to 64 KiB
)

// Dictionary packs and unpacks objects. It is created from a few samples, and is immutable and safe
// for concurrent use. The caller must keep the dictionary as long as it stores an object that was
// packed with the dictionary. A nil *Dictionary is valid: it copies objects without compressing
// them.
//
// A dictionary packs with S2 against the sample objects, at most sampleBytes of each. The tables of
// S2's encoder are several times larger than the samples. They are in scratch, which the garbage
// collector frees while no caller packs.
type Dictionary struct {
	content []byte
	decoder *compress.Dict // has no encoder tables
	scratch sync.Pool      // of *scratch

	base     *base // if set, packs siblings; the fields above are then empty
	attached atomic.Pointer[any]
}

// Attached returns a value that is attached to the dictionary, such as the common parts of its
// objects. The first call creates the value with make. All calls return the same value, so all
// callers must expect the same type.
func (d *Dictionary) Attached(make func() any) any {
	if p := d.attached.Load(); p != nil {
		return *p
	}
	d.attached.CompareAndSwap(nil, new(make()))
	return *d.attached.Load()
}

// scratch is the working memory of one call of pack.
type scratch struct {
	encoder *compress.Dict
	buf     []byte
}

// newDictionary creates a dictionary whose content is the samples.
func newDictionary(samples [][]byte) *Dictionary {
	d := new(Dictionary)
	for _, sample := range samples {
		d.content = append(d.content, sample[:min(len(sample), sampleBytes)]...)
	}
	// The capacity is exact, because the content stays in memory. NewDict needs room for 16 bytes
	// after the content.
	d.content = append(make([]byte, 0, max(len(d.content), compress.MinDictBytes)+16), d.content...)
	if len(d.content) < compress.MinDictBytes {
		d.content = d.content[:compress.MinDictBytes]
	}
	d.decoder = d.makeDict()
	return d
}

// makeDict returns the content as an S2 dictionary. Its first sample is at the start, because most
// objects start like a sample.
func (d *Dictionary) makeDict() *compress.Dict { return compress.NewDict(d.content) }

func (d *Dictionary) getScratch() *scratch {
	if sc, ok := d.scratch.Get().(*scratch); ok {
		return sc
	}
	return &scratch{encoder: d.makeDict()}
}

// pack packs raw and appends the result to dst. The result is at most one byte longer than raw.
func (d *Dictionary) pack(dst, raw []byte) []byte {
	if d == nil {
		return append(dst, raw...)
	}
	need := compress.MaxBlockLen(len(raw))
	if need < 0 || len(raw) < 16 {
		return append(append(dst, methodStored), raw...)
	}
	sc := d.getScratch()
	defer d.scratch.Put(sc)
	sc.buf = slices.Grow(sc.buf[:0], need)
	packed := sc.encoder.Encode(sc.buf[:need], raw)
	if len(packed) >= len(raw) {
		return append(append(dst, methodStored), raw...)
	}
	return append(append(dst, methodS2), packed...)
}

// Unpack unpacks packed and appends the raw bytes to dst. size is their number. If packed was
// obviously not packed with d, Unpack returns dst and ErrCorrupt. It does not retain packed.
func (d *Dictionary) Unpack(dst []byte, packed string, size int) ([]byte, error) {
	bytes := views.Bytes(packed)
	if d == nil {
		return append(dst, bytes...), nil
	}
	return d.unpack(dst, bytes, size)
}

func (d *Dictionary) unpack(dst, packed []byte, size int) ([]byte, error) {
	if d.base != nil {
		return d.base.unpackSibling(dst, packed, size)
	}
	if len(packed) == 0 {
		return dst, ErrCorrupt
	}
	method, packed := packed[0], packed[1:]
	if method == methodStored {
		return append(dst, packed...), nil
	}
	if n, err := compress.DecodedLen(packed); err != nil || n != size {
		return dst, ErrCorrupt
	}
	dst = slices.Grow(dst, size)
	n := len(dst)
	out, err := d.decoder.Decode(dst[n:n:n+size], packed)
	if err != nil {
		return dst[:n], ErrCorrupt
	}
	return dst[:n+len(out)], nil
}

func (d *Dictionary) footprint() int64 {
	if d == nil {
		return 0
	}
	return int64(cap(d.content))
}
