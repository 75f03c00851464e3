package store

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// The store keeps a uid that is a canonical UUID in 16 bytes, and a resourceVersion that is a
// canonical decimal in 8. Any other text is opaque: it is stored after the packed bytes, and the 16
// or 8 bytes contain its length.

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

// identity is the uid, resourceVersion and fingerprint of an incoming object. The texts alias the
// object's bytes.
type identity struct {
	uid                 [16]byte
	rv                  uint64
	sum                 uint64 // 0: unknown
	made                bool   // the bytes to store are not those received
	opaqueUID, opaqueRV bool
	uidText, rvText     []byte // set if opaque
}

func identityOf(uid, rv []byte) (id identity) {
	var ok bool
	if id.uid, ok = parseUUID(uid); !ok {
		id.opaqueUID, id.uidText, id.uid = true, uid, [16]byte{}
		binary.LittleEndian.PutUint32(id.uid[:], uint32(len(uid)))
	}
	if id.rv, ok = resourceversion.ParseCanonical(rv); !ok {
		id.opaqueRV, id.rvText, id.rv = true, rv, uint64(len(rv))
	}
	return id
}

// isEmpty reports whether there is neither a uid nor a resourceVersion.
func (id *identity) isEmpty() bool {
	return id.opaqueUID && len(id.uidText) == 0 && id.opaqueRV && len(id.rvText) == 0
}

// order says how an incoming version compares with the one in the table.
type order uint8

const (
	newer       order = iota
	same              // same uid, same resourceVersion
	older             // both are integers, and the incoming one is lower
	conflicting       // older, but not a repetition: see Writer.contradicts
)

// against compares an incoming identity with the object in the table.
func (id *identity) against(o *Object) order {
	if id.opaqueRV || o.flags&flagOpaqueRV != 0 {
		if id.opaqueRV && o.flags&flagOpaqueRV != 0 && string(id.rvText) == o.opaqueRV() && id.sameUID(o) {
			return same
		}
		return newer
	}
	switch {
	case id.rv < o.rv:
		return older
	case id.rv == o.rv && id.sameUID(o):
		return same
	}
	return newer
}

// sameBytes reports whether the incoming bytes are the same as those received for o. If a
// fingerprint is unknown, it returns believe.
func (id *identity) sameBytes(o *Object, believe bool) bool {
	if id.sum == 0 || o.sum == 0 {
		return believe
	}
	return id.sum == o.sum
}

func (id *identity) sameUID(o *Object) bool {
	if id.opaqueUID || o.flags&flagOpaqueUID != 0 {
		return id.opaqueUID && o.flags&flagOpaqueUID != 0 && string(id.uidText) == o.opaqueUID()
	}
	return id.uid == o.uid
}
