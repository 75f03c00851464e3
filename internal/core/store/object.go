package store

import (
	"bytes"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/pack"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
)

// Object is one immutable version of an object, packed into separate memory. A caller that keeps an
// Object keeps its key and its dictionary or sibling in memory, but not the store's table or other
// objects. All methods are safe for concurrent use.
type Object struct {
	key string // shared by all versions of one object
	// packed contains the packed bytes, then the patch, then the uid and the resourceVersion if
	// they are opaque.
	packed   string
	layout   *layout
	uid      [16]byte
	rv       uint64
	revision uint64
	sum      uint64 // fingerprint of the received bytes; 0: unknown

	// These fields have one bit for each owner, see owners.go. They are used for the version in the
	// table. All three change only while Store.writing is held, and owners loses bits only while
	// Store.mu is held too. A version without an owner is no longer in the table.
	owners      atomic.Uint32
	marks, puts uint32
	// serverGen is the newest server generation in which a source reported this version. It changes
	// only while Store.writing is held.
	serverGen uint32

	size    uint32
	patched uint16 // bytes of the patch; 0: no patch
	based   uint16 // bytes of the version that the patch applies to, unpacked
	decoded atomic.Pointer[decodedEntry]

	indexed uint64 // hash of the values in a set of indexes; 0: no indexes
	nsLen   uint16
	cutAt   uint16 // the position where the uid was cut out, with flagCutUID
	flags   uint8
}

const (
	flagOpaqueUID = 1 << iota // uid is not a canonical UUID: its length is in uid[:4]
	flagOpaqueRV              // resourceVersion is not a canonical integer: its length is in rv
	flagCutUID                // the bytes were packed without the uid's text at cutAt
	flagManual                // no source has reported this version: see ManualWriter
	flagMade                  // the stored bytes are not those received: see PutAs
)

// objectOverhead is the size of an Object in memory, by the allocator's size classes. Each byte of
// it counts twice in the peak of a first sync, because the garbage collector lets the heap grow to
// twice the live memory.
const objectOverhead = 128

// live reports whether this version is in the table.
func (o *Object) live() bool { return o.owners.Load() != 0 }

// ownedBy reports whether the store has the object because of the writer's owner (see owners.go).
func (o *Object) ownedBy(w *Writer) bool { return o.owners.Load()&w.bit != 0 }

// Footprint returns the bytes that this version uses, without its key and its decoded value.
func (o *Object) Footprint() int64 { return objectOverhead + int64(len(o.packed)) }

// tail returns the packed bytes, including the patch, and the opaque texts after them.
func (o *Object) tail() (packed, uid, rv string) {
	packed = o.packed
	if o.flags&flagOpaqueRV != 0 {
		n := len(packed) - int(o.rv)
		packed, rv = packed[:n], packed[n:]
	}
	if o.flags&flagOpaqueUID != 0 {
		n := len(packed) - int(uint32(o.uid[0])|uint32(o.uid[1])<<8|uint32(o.uid[2])<<16|uint32(o.uid[3])<<24)
		packed, uid = packed[:n], packed[n:]
	}
	return packed, uid, rv
}

// opaque reports whether the uid or the resourceVersion is not in its canonical form.
func (o *Object) opaque() bool { return o.flags&(flagOpaqueUID|flagOpaqueRV) != 0 }

// identity returns the identity with which the object was put.
func (o *Object) identity() identity {
	_, uid, rv := o.tail()
	return identity{
		uid: o.uid, rv: o.rv, sum: o.sum, made: o.flags&flagMade != 0,
		opaqueUID: o.flags&flagOpaqueUID != 0, opaqueRV: o.flags&flagOpaqueRV != 0, uidText: []byte(uid), rvText: []byte(rv),
	}
}

func (o *Object) opaqueUID() string { _, uid, _ := o.tail(); return uid }
func (o *Object) opaqueRV() string  { _, _, rv := o.tail(); return rv }

// Key returns "namespace/name", or "name" for cluster-scoped objects.
func (o *Object) Key() string { return o.key }

// Namespace returns the namespace of the object, or "" if it is cluster-scoped.
func (o *Object) Namespace() string { return o.key[:o.nsLen] }

// Name returns the name of the object.
func (o *Object) Name() string {
	if o.nsLen == 0 {
		return o.key
	}
	return o.key[o.nsLen+1:]
}

// UID returns the uid of the object as the server wrote it.
func (o *Object) UID() string {
	if o.flags&flagOpaqueUID != 0 {
		return strings.Clone(o.opaqueUID()) // must not pin the packed bytes
	}
	return formatUUID(o.uid)
}

// AppendUID appends the uid to dst. It does not unpack the object, and allocates only to grow dst.
func (o *Object) AppendUID(dst []byte) []byte {
	if o.flags&flagOpaqueUID != 0 {
		return append(dst, o.opaqueUID()...)
	}
	n := len(dst)
	dst = slices.Grow(dst, uuidLen)[:n+uuidLen]
	putUUID(dst[n:], &o.uid)
	return dst
}

// SameUID reports whether both versions have the same uid, and are thus versions of one object.
func (o *Object) SameUID(other *Object) bool {
	return o.uid == other.uid && (o.flags^other.flags)&flagOpaqueUID == 0 && o.opaqueUID() == other.opaqueUID()
}

// ResourceVersion returns the resourceVersion as the server wrote it.
func (o *Object) ResourceVersion() string {
	if o.flags&flagOpaqueRV != 0 {
		return strings.Clone(o.opaqueRV())
	}
	return resourceversion.Format(o.rv)
}

// ResourceVersionNumber returns the resourceVersion as a number. ok is false if it is not a
// canonical decimal of 64 bits.
func (o *Object) ResourceVersionNumber() (rv uint64, ok bool) {
	if o.flags&flagOpaqueRV != 0 {
		return 0, false
	}
	return o.rv, true
}

// number returns the resourceVersion as a number, or 0 if it is not one.
func (o *Object) number() uint64 {
	rv, _ := o.ResourceVersionNumber()
	return rv
}

// Revision returns the revision of the store at which this version was applied.
func (o *Object) Revision() uint64 { return o.revision }

// Manual reports whether a ManualWriter has put this version, and no source has reported it.
func (o *Object) Manual() bool { return o.flags&flagManual != 0 }

// Size returns the number of raw bytes, or 0 for a value.
func (o *Object) Size() int { return int(o.size) }

// sameVersion reports whether a and b are the same version of the same object: uid, resourceVersion
// and content. If the fingerprint of the received bytes is unknown, it compares the packed bytes.
// Then two versions with equal content that were packed differently count as different. Two values
// always do.
func sameVersion(a, b *Object) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.rv != b.rv || (a.flags^b.flags)&flagOpaqueRV != 0 || a.opaqueRV() != b.opaqueRV() || !a.SameUID(b) {
		return false
	}
	if a.sum != 0 && b.sum != 0 {
		return a.sum == b.sum
	}
	return a.size > 0 && a.layout.dict == b.layout.dict && a.packed == b.packed && a.cutAt == b.cutAt && (a.flags^b.flags)&flagCutUID == 0
}

// cutUID appends raw without the uid. The Object stores the uid in fewer bytes, and packing could
// not make it smaller, since it is random. cutUID does not cut an opaque uid, nor a uid beyond the
// first 64 KiB of raw.
func (o *Object) cutUID(dst, raw, uid []byte) []byte {
	at := -1
	if o.flags&flagOpaqueUID == 0 {
		at = bytes.Index(raw[:min(len(raw), math.MaxUint16)], uid)
	}
	if at < 0 {
		return append(dst, raw...)
	}
	o.flags |= flagCutUID
	o.cutAt = uint16(at)
	return append(append(dst, raw[:at]...), raw[at+len(uid):]...)
}

// Encoding returns the encoding of the raw bytes.
func (o *Object) Encoding() wire.Encoding { return o.layout.encoding }

// Meta reads the object's metadata into m. m aliases the returned bytes: the raw object in
// scratch[:0], or in a larger buffer if scratch was too small. Label, Annotation and similar
// methods return one field each, and each call unpacks the object. For several fields Meta is
// cheaper.
func (o *Object) Meta(m *wire.Meta, scratch []byte) (raw []byte, err error) {
	raw, err = o.AppendRaw(scratch[:0])
	if err != nil {
		return raw, err
	}
	return raw, wire.ReadMeta(o.layout.encoding, raw, m)
}

// Labels returns the labels of the object in a new map, or nil.
func (o *Object) Labels() (labels map[string]string) {
	if o.layout.isValue {
		return maps.Clone(o.layout.labels)
	}
	o.readMeta(func(m *wire.Meta) { labels = collected(m.Labels()) })
	return labels
}

// collected returns a copy of the entries, or nil if there are none.
func collected(entries iter.Seq2[[]byte, []byte]) (all map[string]string) {
	for k, v := range entries {
		if all == nil {
			all = make(map[string]string)
		}
		all[string(k)] = string(v)
	}
	return all
}

// Label returns the value of one label. ok is false if the object does not have it.
func (o *Object) Label(key string) (value string, ok bool) {
	if o.layout.isValue {
		value, ok = o.layout.labels[key]
		return value, ok
	}
	o.readMeta(func(m *wire.Meta) {
		var v []byte
		v, ok = m.Label(key)
		value = string(v)
	})
	return value, ok
}

// Annotations returns the annotations of the object in a new map, or nil.
func (o *Object) Annotations() (annotations map[string]string) {
	o.readMeta(func(m *wire.Meta) { annotations = collected(m.Annotations()) })
	return annotations
}

// Annotation returns the value of one annotation. ok is false if the object does not have it.
func (o *Object) Annotation(key string) (value string, ok bool) {
	o.readMeta(func(m *wire.Meta) {
		var v []byte
		v, ok = m.Annotation(key)
		value = string(v)
	})
	return value, ok
}

// Generation returns metadata.generation, or 0 if there is none.
func (o *Object) Generation() (generation int64) {
	o.readMeta(func(m *wire.Meta) { generation = m.Generation })
	return generation
}

// DeletionTimestamp returns when deletion of the object was requested. ok is false if it was not.
func (o *Object) DeletionTimestamp() (at time.Time, ok bool) {
	o.readMeta(func(m *wire.Meta) { at, ok = m.DeletionTimestamp, !m.DeletionTimestamp.IsZero() })
	return at, ok
}

// metaScratch is the scratch memory for reading a stored object's metadata.
type metaScratch struct {
	meta wire.Meta
	raw  []byte
}

// maxScratch bounds the bytes that a pooled scratch buffer may retain.
const maxScratch = 1 << 20

var metaScratches = sync.Pool{New: func() any { return new(metaScratch) }}

// readMeta calls read with the object's metadata, which is valid during the call. Reading cannot
// fail, since the metadata was read when the object was put. If memory was damaged, readMeta does
// not call read.
func (o *Object) readMeta(read func(m *wire.Meta)) {
	sc := metaScratches.Get().(*metaScratch)
	raw, err := o.Meta(&sc.meta, sc.raw)
	if err == nil {
		read(&sc.meta)
	}
	sc.raw = raw
	if cap(raw) <= maxScratch {
		metaScratches.Put(sc)
	}
}

// withRaw calls use with the raw bytes, which are valid during the call.
func (o *Object) withRaw(use func(raw []byte) error) error {
	sc := metaScratches.Get().(*metaScratch)
	raw, err := o.AppendRaw(slices.Grow(sc.raw[:0], int(o.size)))
	if err == nil {
		err = use(raw)
	}
	sc.raw = raw
	if cap(raw) <= maxScratch {
		metaScratches.Put(sc)
	}
	return err
}

// AppendRaw appends the object's raw bytes to dst, as they were put.
func (o *Object) AppendRaw(dst []byte) ([]byte, error) { return o.appendRaw(dst, nil) }

// appendVersions appends the bytes of two versions of an object: those of was to wasDst, and those
// of is to isDst. If both are patches of the same bytes, or one is a patch of the other, it unpacks
// the common bytes once.
func appendVersions(was, is *Object, wasDst, isDst []byte) (wasRaw, isRaw []byte, err error) {
	var base []byte
	if was.patched+is.patched > 0 && was.hasBaseOf(is) {
		buf := baseBuffers.Get().(*baseBuffer)
		defer baseBuffers.Put(buf)
		if base, err = buf.unpack(is); err != nil {
			return wasDst, isDst, err
		}
	}
	if wasRaw, err = was.appendRaw(wasDst, base); err != nil {
		return wasDst, isDst, err
	}
	isRaw, err = is.appendRaw(isDst, base)
	return wasRaw, isRaw, err
}

// appendRaw appends the object's raw bytes to dst, as they were put. base is the result of
// unpackBase, or nil.
func (o *Object) appendRaw(dst, base []byte) ([]byte, error) {
	if o.flags&flagCutUID == 0 {
		return o.appendBody(dst, base)
	}
	// Unpack after a gap for the uid, so that only the bytes before the uid have to move.
	n, at := len(dst), int(o.cutAt)
	out, err := o.appendBody(slices.Grow(dst, int(o.size))[:n+uuidLen], base)
	if err != nil {
		return dst, err
	}
	copy(out[n:], out[n+uuidLen:][:at])
	putUUID(out[n+at:], &o.uid)
	return out, nil
}

// appendBody appends the object's bytes without a uid that was cut out.
func (o *Object) appendBody(dst, base []byte) ([]byte, error) {
	switch {
	case o.patched == 0 && base == nil:
		return o.unpackBase(dst)
	case o.patched == 0:
		return append(dst, base...), nil
	}
	if base == nil {
		buf := baseBuffers.Get().(*baseBuffer)
		defer baseBuffers.Put(buf)
		var err error
		if base, err = buf.unpack(o); err != nil {
			return dst, err
		}
	}
	_, patch := o.parts()
	return pack.ApplyPatch(dst, base, patch, o.bodySize())
}

// parts returns the packed bytes, and the patch that turns the unpacked bytes into this version.
func (o *Object) parts() (packed, patch string) {
	packed, _, _ = o.tail()
	n := len(packed) - int(o.patched)
	return packed[:n], packed[n:]
}

// hasBaseOf reports whether the packed bytes of both versions are the same.
func (o *Object) hasBaseOf(other *Object) bool {
	a, _ := o.parts()
	b, _ := other.parts()
	return o.layout == other.layout && o.baseSize() == other.baseSize() && a == b
}

// unpackBase appends the unpacked bytes: this version, or the version that the patch applies to.
func (o *Object) unpackBase(dst []byte) ([]byte, error) {
	packed, _ := o.parts()
	return o.layout.dict.Unpack(dst, packed, o.baseSize())
}

// baseSize returns the number of bytes that unpackBase appends.
func (o *Object) baseSize() int {
	if o.patched > 0 {
		return int(o.based)
	}
	return o.bodySize()
}

// bodySize returns the number of raw bytes, without a uid that was cut out.
func (o *Object) bodySize() int {
	if o.flags&flagCutUID != 0 {
		return int(o.size) - uuidLen
	}
	return int(o.size)
}

// baseBuffer is a buffer for an unpacked base. It is no larger than the largest object that is
// patched.
type baseBuffer struct{ raw []byte }

var baseBuffers = sync.Pool{New: func() any { return new(baseBuffer) }}

func (b *baseBuffer) unpack(o *Object) (base []byte, err error) {
	if base, err = o.unpackBase(b.raw[:0]); err == nil {
		b.raw = base
	}
	return base, err
}
