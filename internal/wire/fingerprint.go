package wire

import (
	"bytes"
	"hash/maphash"
	"maps"
)

var fingerprintSeed = maphash.MakeSeed()

// Fingerprint returns a hash of an object's bytes, never 0. It is the same for the item of a LIST
// and the object of a WATCH's event that the same server makes of the same version: in JSON,
// apiVersion and kind in front of the other members do not count, since the items of built-in kinds
// lack them. Different fingerprints do not prove that two objects differ: see Same. It changes from
// process to process.
func Fingerprint(enc Encoding, object []byte) uint64 {
	if enc == JSON {
		object = behindTypeMeta(object)
	}
	return max(1, maphash.Bytes(fingerprintSeed, object))
}

// behindTypeMeta cuts off what stands before the first member that is neither apiVersion nor kind.
func behindTypeMeta(object []byte) []byte {
	members := membersOf(object)
	for {
		i := skipSpace(object, members.i)
		if i < len(object) && object[i] == ',' {
			i = skipSpace(object, i+1)
		}
		if i < len(object) && object[i] == '"' && !isTypeMeta(object[i+1:]) {
			return object[i:]
		}
		if _, _, ok := members.next(); !ok {
			return object[min(i, len(object)):]
		}
	}
}

// isTypeMeta reports whether a name, with what follows, is that of a member that says what an
// object is.
func isTypeMeta(name []byte) bool {
	return bytes.HasPrefix(name, []byte(`kind"`)) || bytes.HasPrefix(name, []byte(`apiVersion"`))
}

// Same reports whether two objects have the same content: the same bytes, or in JSON the same
// members in any order, each with the same bytes, where apiVersion and kind do not count.
func Same(enc Encoding, a, b []byte) bool {
	if enc != JSON || bytes.Equal(a, b) {
		return bytes.Equal(a, b)
	}
	ours, ok := contentOf(a)
	theirs, okToo := contentOf(b)
	return ok && okToo && maps.EqualFunc(ours, theirs, bytes.Equal)
}

// contentOf returns the members of an object but apiVersion and kind. It returns false if they
// cannot be told apart.
func contentOf(object []byte) (content map[string][]byte, ok bool) {
	content = make(map[string][]byte)
	members := membersOf(object)
	for {
		name, value, ok := members.next()
		if !ok {
			return content, !members.bad
		}
		switch key := string(unescape(nil, name)); {
		case key == "kind" || key == "apiVersion":
		case content[key] != nil:
			return nil, false
		default:
			content[key] = value.of(object)
		}
	}
}
