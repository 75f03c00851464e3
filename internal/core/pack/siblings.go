package pack

import (
	"hash/maphash"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/weirproject/weir/internal/core/views"
)

const (
	// maxSibling limits both an object and its base, in bytes: an offset into the base has two
	// bytes.
	maxSibling = 32<<10 - 1
	// maxLarger limits how many times larger than an object its base may be, because the object
	// keeps the base in memory if no other object does.
	maxLarger = 2
	// An object is not packed against its sibling if that results in more than 1/farRatio of its
	// size.
	farRatio = 5
	// maxMisses consecutive objects that are not similar to a base cause its replacement. A single
	// one may be an exception.
	maxMisses = 3
	// maxCandidates limits the groups of which only one object was seen.
	maxCandidates = 1024
	// A map that had more than minGroups groups is reallocated when three quarters of them are
	// gone.
	minGroups = 64
)

// siblings packs the objects of a group, such as the replicas of a workload, against one of them,
// their base. So the common parts of siblings are stored once for the group, also those that no
// other group has. It is safe for concurrent use.
//
// A base is an object that was packed with a dictionary, so unpacking an object never needs more
// than two steps. The base is stored packed, in memory that it shares with the object itself, and
// stays in memory while a sibling does.
type siblings struct {
	seed maphash.Seed

	mu         sync.Mutex
	groups     map[uint64]weak.Pointer[Dictionary] // those that have a base
	most       int                                 // the most groups since the map was allocated
	candidates map[uint64]*base                    // objects that may become a base, by group
	bases      int                                 // live ones, including those of no group
	pins       int64                               // bytes of bases that only siblings keep
}

// base is the object against which the others of a group are packed, or one that may become it.
type base struct {
	id            uint64 // in this process
	group, object uint64 // hashes: an object's own versions are not its siblings
	dict          *Dictionary
	packed        string
	size          int
	misses        atomic.Int32 // consecutive objects that were not similar to it
	pinned        int          // bytes that only siblings keep; siblings.mu guards it
}

// lastBase is the last id of a base.
var lastBase atomic.Uint64

// baseBuffer has the unpacked bytes of one base, up to maxSibling.
type baseBuffer struct {
	of    uint64 // its id; 0: none
	bytes []byte
}

// baseBuffers keep the bases that were used last, one for each processor or so: in the order of
// keys, an object often has the same base as the one before it. The garbage collector frees unused
// buffers.
var baseBuffers = sync.Pool{New: func() any { return new(baseBuffer) }}

// unpack returns the base's bytes, which are in buf.
func (b *base) unpack(buf *baseBuffer) ([]byte, error) {
	if buf.of == b.id {
		return buf.bytes, nil
	}
	buf.of = 0
	raw, err := b.dict.Unpack(buf.bytes[:0], b.packed, b.size)
	if err != nil {
		return nil, err
	}
	buf.of, buf.bytes = b.id, raw
	return raw, nil
}

// unpackSibling appends to dst the object, of size bytes, that was packed against the base.
func (b *base) unpackSibling(dst, packed []byte, size int) ([]byte, error) {
	if len(packed) == 0 || packed[0] != methodSibling {
		return dst, ErrCorrupt
	}
	buf := baseBuffers.Get().(*baseBuffer)
	defer baseBuffers.Put(buf)
	raw, err := b.unpack(buf)
	if err != nil {
		return dst, err
	}
	out, ok := decodeBlock(dst, raw, packed[1:], size)
	if !ok {
		return dst, ErrCorrupt
	}
	return out, nil
}

func newSiblings() *siblings {
	return &siblings{seed: maphash.MakeSeed()}
}

// Name identifies the object to pack, and the group of its siblings.
type Name struct{ Group, Object string }

func (k *siblings) hash(text string) uint64 { return maphash.String(k.seed, text) }

// find returns the dictionary of a group, or nil. If another object of the group is known, it
// becomes the base of a new dictionary, to be passed to keep.
func (k *siblings) find(group uint64, object string) (d *Dictionary, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.groups[group].Value(); d != nil {
		return d, false
	}
	b := k.candidates[group]
	if b == nil || b.object == k.hash(object) {
		return nil, false
	}
	return &Dictionary{base: b}, true
}

// keep makes d the dictionary of its group. If another goroutine was faster, keep returns that
// one's dictionary with the same base.
func (k *siblings) keep(d *Dictionary) *Dictionary {
	k.mu.Lock()
	defer k.mu.Unlock()
	group := d.base.group
	if other := k.groups[group].Value(); other != nil {
		if other.base == d.base {
			return other
		}
		return d // the group has got another base: no other object will use d
	}
	if k.groups == nil {
		k.groups = map[uint64]weak.Pointer[Dictionary]{}
	}
	k.groups[group] = weak.Make(d)
	k.most = max(k.most, len(k.groups))
	delete(k.candidates, group)
	k.bases++
	runtime.AddCleanup(d, k.end, d.base)
	return d
}

// end forgets a base against which no object is packed any more. The runtime calls it after the
// base's dictionary was collected.
func (k *siblings) end(b *base) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bases--
	k.pins -= int64(b.pinned)
	if k.groups[b.group].Value() == nil {
		delete(k.groups, b.group)
	}
	if k.most > minGroups && len(k.groups) < k.most/4 { // a map never shrinks
		k.most = len(k.groups)
		groups := make(map[uint64]weak.Pointer[Dictionary], k.most)
		maps.Copy(groups, k.groups)
		k.groups = groups
	}
}

// pin counts a base's bytes as kept only by its siblings. The caller holds the lock.
func (k *siblings) pin(b *base) {
	if b.pinned == 0 {
		b.pinned = len(b.packed)
		k.pins += int64(len(b.packed))
	}
}

// miss records that an object of a group is not similar to its base, or candidate. After a few in a
// row, the next object of the group that is packed without replaces it. Objects that are packed
// against the old base keep it in memory.
func (k *siblings) miss(d *Dictionary) {
	b := d.base
	if b.misses.Add(1) < maxMisses {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.candidates[b.group] == b {
		delete(k.candidates, b.group)
	}
	if k.groups[b.group].Value() == d {
		delete(k.groups, b.group)
		k.pin(b) // its object's deletion no longer finds it
	}
}

// note records an object that may become the base of its group.
func (k *siblings) note(n Name, d *Dictionary, packed string, size int) {
	if size > maxSibling {
		return
	}
	group := k.hash(n.Group)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.groups[group].Value() != nil || k.candidates[group] != nil {
		return
	}
	if k.candidates == nil || len(k.candidates) >= maxCandidates {
		k.candidates = map[uint64]*base{}
	}
	k.candidates[group] = &base{id: lastBase.Add(1), group: group, object: k.hash(n.Object), dict: d, packed: packed, size: size}
}

// release records that an object is no longer stored as packed. It then does not become a base; if
// it is one, only its siblings keep it.
func (k *siblings) release(n Name, packed string) {
	group := k.hash(n.Group)
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.groups[group].Value(); d != nil {
		if views.Same(d.base.packed, packed) {
			k.pin(d.base)
		}
	} else if b := k.candidates[group]; b != nil && views.Same(b.packed, packed) {
		delete(k.candidates, group)
	}
}

// pack packs raw against its group's base and appends the result to dst. d is nil if the group has
// none that is similar to raw.
func (k *siblings) pack(dst, raw []byte, name Name) (_ []byte, d *Dictionary) {
	if len(raw) > maxSibling {
		return dst, nil
	}
	d, fresh := k.find(k.hash(name.Group), name.Object)
	if d == nil {
		return dst, nil
	}
	block, ok := d.base.pack(append(dst, methodSibling), raw)
	if !ok {
		k.miss(d)
		return dst, nil
	}
	if d.base.misses.Load() != 0 {
		d.base.misses.Store(0)
	}
	if fresh {
		d = k.keep(d)
	}
	return block, d
}

// pack appends to dst a patch from the base to raw. ok is false if raw is not similar.
func (b *base) pack(dst, raw []byte) (_ []byte, ok bool) {
	if b.size > maxLarger*len(raw) {
		return dst, false
	}
	buf := baseBuffers.Get().(*baseBuffer)
	defer baseBuffers.Put(buf)
	of, err := b.unpack(buf)
	if err != nil {
		return dst, false
	}
	return AppendPatch(dst, of, raw, len(raw)/farRatio)
}

// footprint estimates the bytes of the groups without their objects.
func (k *siblings) footprint() int64 {
	const perBase, perGroup, perCandidate = 350, 30, 150
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(k.bases)*perBase + int64(k.most)*perGroup + int64(len(k.candidates))*perCandidate + k.pins
}
