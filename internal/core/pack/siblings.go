package pack

import (
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/weirproject/weir/internal/core/views"
)

const (
	// maxSibling limits both an object and its base, in bytes: an offset into the base has two bytes.
	maxSibling = 32<<10 - 1
	// maxLarger limits how many times larger than an object its base may be, because the object keeps
	// the base in memory if no other object does.
	maxLarger = 2
	// An object that packs against its sibling to more than 1/nearRatio of its size is also packed
	// without, and the smaller result is used. With more than 1/farRatio of literals it is not packed
	// against the sibling.
	nearRatio, farRatio = 10, 3
	// maxMisses consecutive objects that are not similar to a base cause its replacement. A single one
	// may be an exception.
	maxMisses = 3
	// maxCandidates limits the groups of which only one object was seen.
	maxCandidates = 1024
	// A map that had more than minGroups groups is reallocated when three quarters of them are gone.
	minGroups = 64
)

// siblings packs the objects of a group, such as the replicas of a workload, against one of them,
// their base. So the common parts of siblings are stored once for the group, also those that no
// other group has. It is safe for concurrent use.
//
// A base is an object that was packed with a dictionary, so unpacking an object never needs more
// than two steps. The base is stored packed, in memory that it shares with the object itself, and
// stays in memory while a sibling does. The last few that were used are also kept unpacked.
type siblings struct {
	seed       maphash.Seed
	lastGroups recentIDs // groups of the last objects
	// cache is separate because bases point to it, and stored objects point to bases.
	cache *baseCache
	ids   atomic.Uint64 // the last id of a base

	mu         sync.Mutex
	groups     map[uint64]weak.Pointer[Dictionary] // those that have a base
	most       int                                 // the most groups since the map was allocated
	candidates map[uint64]candidate                // objects that may become a base
	bases      int                                 // live ones, including those of no group
	pins       int64                               // bytes of bases that only siblings keep
}

// candidate is an object of a group without a base, and may become its base.
type candidate struct {
	name   uint64 // of the object: its own versions are not siblings
	dict   *Dictionary
	packed views.WeakString
	size   int
	misses int32
}

func newSiblings() *siblings {
	return &siblings{seed: maphash.MakeSeed(), cache: new(baseCache)}
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
	f, ok := k.candidates[group]
	if !ok || f.name == k.hash(object) {
		return nil, false
	}
	packed, ok := f.packed.Value()
	if !ok {
		delete(k.candidates, group)
		return nil, false
	}
	return &Dictionary{base: &base{
		cache: k.cache, id: k.ids.Add(1), dict: f.dict, packed: packed, size: f.size, pinned: new(int),
	}}, true
}

// keep makes d the dictionary of a group, unless another goroutine was faster.
func (k *siblings) keep(group uint64, d *Dictionary) *Dictionary {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other := k.groups[group].Value(); other != nil {
		return other
	}
	if k.groups == nil {
		k.groups = map[uint64]weak.Pointer[Dictionary]{}
	}
	p := weak.Make(d)
	k.groups[group] = p
	k.most = max(k.most, len(k.groups))
	delete(k.candidates, group)
	k.bases++
	runtime.AddCleanup(d, k.end, ended{group, d.base.pinned, p})
	return d
}

// ended describes a base against which no object is packed any more.
type ended struct {
	group      uint64
	pinned     *int
	dictionary weak.Pointer[Dictionary]
}

// end forgets a base. The runtime calls it after the base was collected.
func (k *siblings) end(e ended) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bases--
	k.pins -= int64(*e.pinned)
	if k.groups[e.group] == e.dictionary {
		delete(k.groups, e.group)
	}
	if k.most > minGroups && len(k.groups) < k.most/4 { // a map never shrinks
		k.most = len(k.groups)
		groups := make(map[uint64]weak.Pointer[Dictionary], k.most)
		for g, d := range k.groups {
			groups[g] = d
		}
		k.groups = groups
	}
}

// pin counts a base's bytes as kept only by its siblings. The caller holds the lock.
func (k *siblings) pin(b *base) {
	if *b.pinned == 0 {
		*b.pinned = len(b.packed)
		k.pins += int64(len(b.packed))
	}
}

// miss records that an object of a group is not similar to its base, or candidate. After a few in a
// row, the next object of the group that is packed without replaces it. Objects that are packed
// against the old base keep it in memory.
func (k *siblings) miss(group uint64, d *Dictionary, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !fresh {
		if d.base.misses.Add(1) >= maxMisses && k.groups[group].Value() == d {
			delete(k.groups, group)
			k.pin(d.base) // its object's deletion no longer finds it
		}
		return
	}
	f, ok := k.candidates[group]
	if !ok {
		return
	}
	if f.misses++; f.misses >= maxMisses {
		delete(k.candidates, group)
	} else {
		k.candidates[group] = f
	}
}

// note records an object that may become the base of its group.
func (k *siblings) note(n Name, d *Dictionary, packed string, size int) {
	if size > maxSibling || len(packed) < 2 { // a WeakString has two bytes or more
		return
	}
	group := k.hash(n.Group)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.groups[group].Value() != nil {
		return
	}
	// An old candidate remains while it is in memory, because replacing it costs time.
	if _, ok := k.candidates[group].packed.Value(); ok {
		return
	}
	if k.candidates == nil || len(k.candidates) >= maxCandidates {
		k.candidates = map[uint64]candidate{}
	}
	k.candidates[group] = candidate{name: k.hash(n.Object), dict: d, packed: views.MakeWeakString(packed), size: size}
}

// release records that an object is no longer stored as packed. It then does not become a base; if
// it is one, only its siblings keep it.
func (k *siblings) release(n Name, packed string) {
	if len(packed) == 0 {
		return
	}
	group := k.hash(n.Group)
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.groups[group].Value(); d != nil {
		if views.Same(d.base.packed, packed) {
			k.pin(d.base)
		}
	} else if is, ok := k.candidates[group].packed.Value(); ok && views.Same(is, packed) {
		delete(k.candidates, group)
	}
}

// pack packs raw against its group's base and appends the result to dst. d is nil if the group has
// none that is similar to raw. near is false if packing without could be smaller.
func (k *siblings) pack(dst, raw []byte, name Name) (_ []byte, d *Dictionary, near bool) {
	if len(raw) > maxSibling {
		return dst, nil, false
	}
	group := k.hash(name.Group)
	alone := !k.lastGroups.has(group)
	if alone {
		k.lastGroups.add(group)
	}
	d, fresh := k.find(group, name.Object)
	if d == nil {
		return dst, nil, false
	}
	if d.base.size > maxLarger*len(raw) {
		k.miss(group, d, fresh)
		return dst, nil, false
	}
	buf := bases.Get().(*unpacked)
	defer bases.Put(buf)
	of, err := d.base.unpack(buf, !alone)
	if err != nil {
		return dst, nil, false
	}
	begin := len(dst)
	block, ok := of.encode(append(dst, methodSibling), raw, len(raw)/farRatio)
	if !ok {
		k.miss(group, d, fresh)
		return dst, nil, false
	}
	if d.base.misses.Load() != 0 {
		d.base.misses.Store(0)
	}
	if fresh {
		if kept := k.keep(group, d); kept != d { // it is packed against a base that no other object uses
			return dst, nil, false
		}
	}
	return block, d, (len(block)-begin)*nearRatio <= len(raw)
}

// footprint estimates the bytes of the groups without their objects.
func (k *siblings) footprint() int64 {
	const perBase, perGroup, perCandidate = 350, 30, 80
	k.mu.Lock()
	n := int64(k.bases)*perBase + int64(k.most)*perGroup + int64(len(k.candidates))*perCandidate + k.pins
	k.mu.Unlock()
	return n + k.cache.footprint()
}
