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
	// maxSibling is the maximum size of an object and of its base, in bytes, because an offset into
	// the base has two bytes.
	maxSibling = 32<<10 - 1
	// maxLarger is the maximum ratio of a base's size to an object's size. Without this limit, one
	// small object could keep a large base in memory.
	maxLarger = 2
	// An object is not packed against its base if the result would be larger than 1/farRatio of the
	// object's size.
	farRatio = 5
	// After maxMisses consecutive objects that are not similar to a base, the base is replaced. One or
	// two such objects may be exceptions.
	maxMisses = 3
	// maxCandidates is the maximum number of groups that have only a candidate for a base.
	maxCandidates = 1024
	// A map that had more than minGroups groups is reallocated when three quarters of them are
	// deleted.
	minGroups = 64
)

// siblings packs the objects of a group, such as the replicas of a workload, as patches of one
// object of the group, the base. So the parts that these objects have in common are stored once per
// group, even parts that no other group has. It is safe for concurrent use.
//
// A base is an object that was packed with a dictionary, so unpacking any object takes at most two
// steps. The base is stored packed. While the base's own object is stored, both share their bytes.
// The base stays in memory while objects are packed against it.
type siblings struct {
	seed maphash.Seed

	mu         sync.Mutex
	groups     map[uint64]weak.Pointer[Dictionary] // the groups that have a base
	most       int                                 // the maximum len(groups) of the current map
	candidates map[uint64]*base                    // objects that may become a base, by group
	bases      int                                 // live bases, including replaced ones
	pins       int64                               // bytes of bases whose objects are no longer stored
}

// base is the object against which other objects of a group are packed, or a candidate for that.
type base struct {
	id            uint64 // unique in this process
	group, object uint64 // hashes of the names; an object is not packed against itself
	dict          *Dictionary
	packed        string
	size          int
	misses        atomic.Int32 // consecutive objects that were not similar to the base
	pinned        int          // len(packed) after release, before that 0; guarded by siblings.mu
}

// lastBase is the id of the newest base.
var lastBase atomic.Uint64

// baseBuffer contains the unpacked bytes of one base, up to maxSibling.
type baseBuffer struct {
	of    uint64 // the base's id; 0 means none
	bytes []byte
}

// baseBuffers caches the unpacked bases that were used last, about one per processor. If objects
// are packed in the order of their keys, consecutive objects often have the same base. The garbage
// collector frees unused buffers.
var baseBuffers = sync.Pool{New: func() any { return new(baseBuffer) }}

// unpack returns the base's raw bytes. They are in buf.
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

// unpackSibling unpacks an object that was packed against b, and appends the object's bytes to dst.
// size is their number.
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

// Name identifies an object and the group of its siblings. Group is empty if the object has no
// group.
type Name struct{ Group, Object string }

func (k *siblings) hash(text string) uint64 { return maphash.String(k.seed, text) }

// find returns the dictionary of a group, or nil. If the group has only a candidate, and the
// candidate is not the object itself, find returns a new dictionary whose base is the candidate.
// fresh is then true. A caller that packs with the dictionary must pass it to keep.
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

// keep makes d the dictionary of its group. If another goroutine has done that with the same base,
// keep returns that goroutine's dictionary.
func (k *siblings) keep(d *Dictionary) *Dictionary {
	k.mu.Lock()
	defer k.mu.Unlock()
	group := d.base.group
	if other := k.groups[group].Value(); other != nil {
		if other.base == d.base {
			return other
		}
		return d // another goroutine gave the group a different base, so no other object will use d
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

// end removes a base to which no packed object refers any more. The runtime calls end after it has
// collected the base's dictionary.
func (k *siblings) end(b *base) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bases--
	k.pins -= int64(b.pinned)
	if k.groups[b.group].Value() == nil {
		delete(k.groups, b.group)
	}
	if k.most > minGroups && len(k.groups) < k.most/4 { // because a map never shrinks
		k.most = len(k.groups)
		groups := make(map[uint64]weak.Pointer[Dictionary], k.most)
		maps.Copy(groups, k.groups)
		k.groups = groups
	}
}

// pin counts the base's bytes, after the base's own object is no longer stored. The caller holds
// the lock.
func (k *siblings) pin(b *base) {
	if b.pinned == 0 {
		b.pinned = len(b.packed)
		k.pins += int64(len(b.packed))
	}
}

// miss records that an object of a group is not similar to the group's base or candidate. After
// maxMisses in a row, miss removes the base or candidate. The next object of the group that is
// packed without a base then becomes the candidate. Objects that are packed against the old base
// keep it in memory.
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
		k.pin(b) // later, release cannot find b, because b is no longer the group's base
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

// release records that the caller no longer stores the packed bytes of an object. If the object is
// a candidate, it will not become a base. If it is a base, only its siblings keep its bytes in
// memory.
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
// no base that is similar to raw.
func (k *siblings) pack(dst, raw []byte, name Name) (_ []byte, d *Dictionary) {
	if len(raw) > maxSibling || name.Group == "" {
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

// pack appends to dst a patch from the base to raw. ok is false if raw is not similar to the base.
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

// footprint estimates the memory, in bytes, that the groups use in addition to the objects that
// callers store.
func (k *siblings) footprint() int64 {
	const perBase, perGroup, perCandidate = 350, 30, 150
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(k.bases)*perBase + int64(k.most)*perGroup + int64(len(k.candidates))*perCandidate + k.pins
}
