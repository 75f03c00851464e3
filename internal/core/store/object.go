package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/pack"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
)

// Object is one immutable version of an object, packed into separate memory. A caller that keeps an
// Object keeps its key and its dictionary or sibling in memory, but not the store's table or other
// objects. All methods are safe for concurrent use.
type Object struct {
	key string // shared by all versions of one object
	// packed contains the packed bytes, then the patch, and then the uid and the resourceVersion if
	// these are opaque. Until the version is packed, it contains only the opaque texts.
	packed   string
	layout   *layout
	uid      [16]byte
	rv       uint64
	revision uint64
	sum      uint64 // fingerprint of the received bytes; 0: unknown

	// owners, marks and puts have one bit for each owner; see owners.go. They are used only for the
	// version in the table. They change only while Store.writing is held. A bit of owners is cleared
	// only while Store.mu is also held. A version without an owner is no longer in the table.
	owners      atomic.Uint32
	marks, puts uint32
	// serverGen is the newest server generation in which a source reported this version. It changes
	// only while Store.writing is held.
	serverGen uint32

	size    uint32
	patched uint16 // bytes of the patch; 0: no patch
	based   uint16 // unpacked size of the version to which the patch applies
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
	flagMade                  // the stored bytes differ from the received bytes: see PutAs
)

// objectOverhead is the size of an Object in memory, rounded up to the allocator's size class. Each
// of these bytes costs two bytes at the peak of a first sync, because the garbage collector lets
// the heap grow to twice the live memory.
const objectOverhead = 128

// live reports whether this version is in the table.
func (o *Object) live() bool { return o.owners.Load() != 0 }

// ownedBy reports whether the writer's owner has the object (see owners.go).
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
		n := len(packed) - int(binary.LittleEndian.Uint32(o.uid[:]))
		packed, uid = packed[:n], packed[n:]
	}
	return packed, uid, rv
}

// setIdentity sets the uid and the resourceVersion of a version that is not packed yet. A uid that
// is a canonical UUID uses 16 bytes, and a resourceVersion that is a canonical decimal uses 8. Any
// other text is opaque: it is stored after the packed bytes, and the 16 or 8 bytes contain only its
// length.
func (o *Object) setIdentity(uid, rv []byte) {
	var ok bool
	if o.uid, ok = parseUUID(uid); !ok {
		o.uid = [16]byte{}
		binary.LittleEndian.PutUint32(o.uid[:], uint32(len(uid)))
		o.flags |= flagOpaqueUID
		o.packed = string(uid)
	}
	if o.rv, ok = resourceversion.ParseCanonical(rv); !ok {
		o.rv = uint64(len(rv))
		o.flags |= flagOpaqueRV
		o.packed += string(rv)
	}
}

// setValue makes value the content of a version that is not packed. The cache does not track the
// value and never evicts it. m is the value's metadata.
func (o *Object) setValue(decoder *cachedDecoder, value any, m *wire.Meta) {
	o.size = 0
	o.layout = &layout{cachedDecoder: decoder, isValue: true, labels: collected(m.Labels())}
	box := &decodedBox{value: value}
	d := newDecodedEntry(box, 0)
	d.strong.Store(box)
	o.decoded.Store(d)
}

// isAnonymous reports whether a version that is not packed has neither a uid nor a resourceVersion.
func (o *Object) isAnonymous() bool {
	return o.flags&flagOpaqueUID != 0 && o.flags&flagOpaqueRV != 0 && o.packed == ""
}

// opaque reports whether the uid or the resourceVersion is not in its canonical form.
func (o *Object) opaque() bool { return o.flags&(flagOpaqueUID|flagOpaqueRV) != 0 }

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

// SameUID reports whether both versions have the same uid, so that they are versions of one object.
func (o *Object) SameUID(other *Object) bool {
	return o.uid == other.uid && (o.flags^other.flags)&flagOpaqueUID == 0 && o.opaqueUID() == other.opaqueUID()
}

// sameIdentity reports whether both versions have the same uid and the same resourceVersion.
func (o *Object) sameIdentity(other *Object) bool {
	return o.rv == other.rv && (o.flags^other.flags)&flagOpaqueRV == 0 && o.opaqueRV() == other.opaqueRV() && o.SameUID(other)
}

// sameBytes reports whether the received bytes of both versions have the same fingerprint. If a
// fingerprint is unknown, it returns believe.
func (o *Object) sameBytes(other *Object, believe bool) bool {
	if o.sum == 0 || other.sum == 0 {
		return believe
	}
	return o.sum == other.sum
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
// Then two versions with equal content count as different if they were packed differently. Two
// versions that are stored as Go values always count as different.
func sameVersion(a, b *Object) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || !a.sameIdentity(b) {
		return false
	}
	if a.sum != 0 && b.sum != 0 {
		return a.sum == b.sum
	}
	return a.size > 0 && a.layout.dict == b.layout.dict && a.packed == b.packed && a.cutAt == b.cutAt && (a.flags^b.flags)&flagCutUID == 0
}

// cutUID appends raw without the uid. The Object stores the uid in 16 bytes. A uid is random, so
// packing could not make its text shorter. cutUID does not cut an opaque uid, nor a uid beyond the
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
// scratch[:0], or in a larger buffer if scratch was too small. Each call of Labels or Label unpacks
// the object, so for several fields Meta costs less.
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

// scratch is the scratch memory for reading a stored object.
type scratch struct {
	meta wire.Meta
	raw  []byte
}

// maxScratch bounds the bytes that a pooled scratch buffer may retain.
const maxScratch = 1 << 20

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (sc *scratch) release() {
	if cap(sc.raw) <= maxScratch {
		scratches.Put(sc)
	}
}

// readMeta calls read with the object's metadata, which is valid during the call. If memory is
// damaged, the metadata may be unreadable: then readMeta does not call read. In all other cases the
// metadata is readable, because it was already read when the object was put.
func (o *Object) readMeta(read func(m *wire.Meta)) {
	sc := scratches.Get().(*scratch)
	defer sc.release()
	var err error
	if sc.raw, err = o.Meta(&sc.meta, sc.raw); err == nil {
		read(&sc.meta)
	}
}

// withRaw calls use with the raw bytes, which are valid during the call.
func (o *Object) withRaw(use func(raw []byte) error) (err error) {
	sc := scratches.Get().(*scratch)
	defer sc.release()
	if sc.raw, err = o.AppendRaw(slices.Grow(sc.raw[:0], int(o.size))); err != nil {
		return err
	}
	return use(sc.raw)
}

// AppendRaw appends the object's raw bytes to dst, as they were put.
func (o *Object) AppendRaw(dst []byte) ([]byte, error) {
	if o.flags&flagCutUID == 0 {
		return o.appendBody(dst)
	}
	// Unpack after a gap for the uid, so that only the bytes before the uid have to move.
	n, at := len(dst), int(o.cutAt)
	out, err := o.appendBody(slices.Grow(dst, int(o.size))[:n+uuidLen])
	if err != nil {
		return dst, err
	}
	copy(out[n:], out[n+uuidLen:][:at])
	putUUID(out[n+at:], &o.uid)
	return out, nil
}

// appendBody appends the object's bytes. If the uid was cut out, they lack the uid.
func (o *Object) appendBody(dst []byte) ([]byte, error) {
	if o.patched == 0 {
		return o.unpackBase(dst)
	}
	sc := scratches.Get().(*scratch)
	defer sc.release()
	base, err := o.unpackBase(sc.raw[:0])
	if err != nil {
		return dst, err
	}
	sc.raw = base
	_, patch := o.parts()
	return pack.ApplyPatch(dst, base, patch, o.bodySize())
}

// parts returns the packed bytes, and the patch that turns the unpacked bytes into this version.
func (o *Object) parts() (packed, patch string) {
	packed, _, _ = o.tail()
	n := len(packed) - int(o.patched)
	return packed[:n], packed[n:]
}

// unpackBase appends unpacked bytes. Without a patch, they are the bytes of this version. With a
// patch, they are the bytes of the version to which the patch applies.
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

// cachedDecoder decodes the objects of a store, and caches their decoded values. It is separate
// from the store so that an object that a caller keeps does not keep the store's table alive.
type cachedDecoder struct {
	encoding   wire.Encoding
	decode     decodeFunc
	decodeCopy decodeFunc
	cache      *decodedCache
}

// decodeFunc is the type of Config.Decode.
type decodeFunc = func(raw []byte, earlier *codec.Version) (any, error)

// layout describes how an object is stored: packed with a dictionary, as received, or as a value.
// Objects with the same dictionary share a layout. Each version that is stored as a value has a
// separate layout, which contains the version's labels: there are no bytes from which labels could
// be read.
type layout struct {
	*cachedDecoder
	dict    *pack.Dictionary // nil: the bytes are stored as received
	isValue bool
	labels  map[string]string // of the value
}

// uuidLen is the length of a canonical UUID.
const uuidLen = 36

// parseUUID parses the canonical form: lower case, 8-4-4-4-12. ok is false for any other text.
func parseUUID(text []byte) (u [16]byte, ok bool) {
	if len(text) != uuidLen || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return u, false
	}
	n := 0
	for i := 0; i < uuidLen; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			i++
			continue
		}
		hi, lo := unhex(text[i]), unhex(text[i+1])
		if hi > 15 || lo > 15 {
			return u, false
		}
		u[n] = hi<<4 | lo
		n++
		i += 2
	}
	return u, true
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func formatUUID(u [16]byte) string {
	var b [uuidLen]byte
	putUUID(b[:], &u)
	return string(b[:])
}

// putUUID writes the canonical form to b[:uuidLen].
func putUUID(b []byte, u *[16]byte) {
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
}
