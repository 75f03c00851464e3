package pack

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/compress"
	"github.com/weirproject/weir/internal/core/views"
)

// ErrCorrupt is returned for bytes that this dictionary did not pack.
var ErrCorrupt = errors.New("pack: corrupt")

// The first byte of a packed object is the method by which it was packed.
const (
	methodStored  = iota // unpacked
	methodS2             // by S2 with the dictionary
	methodSibling        // against a sibling
)

const (
	dictSamples  = 4           // objects that form a dictionary
	maxDictBytes = 32<<10 - 16 // S2 accepts up to 64 KiB
)

// Dictionary packs and unpacks objects. It is created from a few samples, is immutable and safe for
// concurrent use, and stays in memory while an object that was packed with it does. The nil
// *Dictionary is valid: it stores objects unpacked.
//
// It packs with S2 against whole objects, and has at most 32 KiB. The tables of S2's encoder are
// several times larger. They are in the scratch, which the garbage collector frees while no caller
// packs.
type Dictionary struct {
	content []byte
	decoder *compress.Dict // without tables
	scratch sync.Pool      // of *scratch

	base     *base // of siblings; the fields above are then empty
	attached atomic.Pointer[any]
}

// Attached returns a value that a caller attaches to a dictionary, such as the common parts of its
// objects. The first call creates it with make. All calls return the same value, and must expect
// the same type.
func (d *Dictionary) Attached(make func() any) any {
	if p := d.attached.Load(); p != nil {
		return *p
	}
	made := make()
	d.attached.CompareAndSwap(nil, &made)
	return *d.attached.Load()
}

// scratch is the working memory of one call of pack.
type scratch struct {
	encoder *compress.Dict
	buf     []byte
}

// newDictionary creates a dictionary, whose content is the samples.
func newDictionary(samples [][]byte) *Dictionary {
	d := new(Dictionary)
	for _, sample := range samples {
		d.content = append(d.content, sample[:min(len(sample), sampleBytes)]...)
	}
	// The exact size, because it stays in memory. MakeDict needs 16 bytes after the content.
	d.content = append(make([]byte, 0, max(len(d.content), compress.MinDictBytes)+16), d.content...)
	if len(d.content) < compress.MinDictBytes {
		d.content = d.content[:compress.MinDictBytes]
	}
	d.decoder = d.makeDict()
	return d
}

// makeDict returns the dictionary in S2's form. An object starts like the first sample.
func (d *Dictionary) makeDict() *compress.Dict { return compress.NewDict(d.content) }

func (d *Dictionary) getScratch() *scratch {
	if sc, ok := d.scratch.Get().(*scratch); ok {
		return sc
	}
	return &scratch{encoder: d.makeDict()}
}

// pack packs raw and appends the result, at most one byte longer than raw, to dst.
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

// Unpack unpacks packed and appends its size raw bytes to dst. It returns dst and ErrCorrupt if d
// did not create packed. It does not keep packed.
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
