package pack

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/klauspost/compress/s2"

	"github.com/weirproject/weir/internal/pack/entropy"
)

// ErrCorrupt is returned for bytes that this dictionary did not pack.
var ErrCorrupt = errors.New("pack: corrupt")

// The first byte of a packed object says how it was packed.
const (
	methodStored  = iota // not at all
	methodS2             // by S2 with the dictionary
	methodEntropy        // by S2, and the result with the dictionary's codes
	methodSibling        // against a sibling, and not with codes
)

const (
	dictSamples  = 4           // objects that make up a dictionary
	maxDictBytes = 32<<10 - 16 // S2 takes up to 64 KiB
	maxTraining  = 64 << 10    // bytes of S2's output that the codes are made of
)

// Dictionary packs and unpacks objects. It is made of a few samples, is immutable
// and safe for concurrent use, and lives as long as an object that was packed with
// it. The nil *Dictionary is valid: it holds objects as they came.
//
// It packs with S2 against whole objects. S2 has no entropy coder, and what is left
// of a Kubernetes object after the dictionary is mostly hexadecimal. So S2's output
// goes through codes that were made once, of its output for the samples.
//
// It holds some 20 KB: the dictionary's content and the lengths of the codes. The
// tables made of them are several times that. They are in the scratch, which the
// garbage collector frees when nobody packs or unpacks.
type Dictionary struct {
	content []byte
	decoder *s2.Dict // has no tables
	model   *entropy.Model
	scratch sync.Pool // of *scratch

	base     *base // of siblings; then there is nothing of the above
	attached atomic.Pointer[any]
}

// Attached returns what somebody has for each dictionary, such as what the objects packed with it
// have in common. It is made by the first call. All calls return the same, and must have it of one
// type.
func (d *Dictionary) Attached(make func() any) any {
	if p := d.attached.Load(); p != nil {
		return *p
	}
	made := make()
	d.attached.CompareAndSwap(nil, &made)
	return *d.attached.Load()
}

// scratch is what one call of pack or unpack needs.
type scratch struct {
	encoder *s2.Dict // nil until something is packed
	coder   *entropy.Coder
	buf     []byte
}

// newDictionary makes a dictionary. The first samples, whole of them, become its
// content, and all of them its codes.
func newDictionary(samples [][]byte, whole int) *Dictionary {
	d := new(Dictionary)
	for _, sample := range samples[:min(whole, len(samples))] {
		d.content = append(d.content, sample[:min(len(sample), maxDictBytes/dictSamples)]...)
	}
	// Exact size: it stays. MakeDict wants 16 bytes behind the content.
	d.content = append(make([]byte, 0, max(len(d.content), s2.MinDictSize)+16), d.content...)
	if len(d.content) < s2.MinDictSize {
		d.content = d.content[:s2.MinDictSize]
	}
	d.decoder = d.makeDict()
	d.model = d.train(samples)
	return d
}

// makeDict makes the dictionary as S2 takes it. An object begins as the first sample does.
func (d *Dictionary) makeDict() *s2.Dict { return s2.MakeDictManual(d.content, 0) }

// train makes the codes for how the samples pack. The samples that are in the
// content pack to nearly nothing and so count for little.
func (d *Dictionary) train(samples [][]byte) *entropy.Model {
	encoder := d.makeDict()
	var blocks [][]byte
	for size := 0; len(blocks) < len(samples) && size < maxTraining; {
		block := encoder.Encode(nil, samples[len(blocks)])
		blocks = append(blocks, block)
		size += len(block)
	}
	return entropy.Train(blocks...)
}

func (d *Dictionary) getScratch() *scratch {
	if sc, ok := d.scratch.Get().(*scratch); ok {
		return sc
	}
	return &scratch{coder: entropy.NewCoder(d.model, d.content)}
}

// pack packs raw and appends the result to dst, at most one byte longer than raw.
func (d *Dictionary) pack(dst, raw []byte, fast bool) []byte {
	if d == nil {
		return append(dst, raw...)
	}
	sc := d.getScratch()
	defer d.scratch.Put(sc)
	need := s2.MaxEncodedLen(len(raw))
	if need < 0 || len(raw) < 16 {
		return append(append(dst, methodStored), raw...)
	}
	if sc.encoder == nil {
		sc.encoder = d.makeDict()
	}
	sc.buf = slices.Grow(sc.buf[:0], need)
	packed := sc.encoder.Encode(sc.buf[:need], raw)
	if len(packed) >= len(raw) {
		return append(append(dst, methodStored), raw...)
	}
	if fast {
		return append(append(dst, methodS2), packed...)
	}
	begin := len(dst)
	if coded, ok := sc.coder.Append(append(dst, methodEntropy), packed); ok && len(coded)-begin <= len(packed) {
		return coded
	}
	return append(append(dst[:begin], methodS2), packed...)
}

// Unpack unpacks packed and appends the raw bytes, size of them, to dst. It returns dst and
// ErrCorrupt if d did not make packed. It does not keep packed.
func (d *Dictionary) Unpack(dst []byte, packed string, size int) ([]byte, error) {
	bytes := unsafe.Slice(unsafe.StringData(packed), len(packed)) // read only
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
	if method == methodEntropy {
		sc := d.getScratch()
		defer d.scratch.Put(sc)
		out, err := sc.coder.Decode(dst, packed, size)
		if err != nil {
			return dst, ErrCorrupt
		}
		return out, nil
	}
	if n, err := s2.DecodedLen(packed); err != nil || n != size {
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
	return int64(cap(d.content)) + int64(unsafe.Sizeof(*d.model))
}
