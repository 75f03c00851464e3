package wire

import (
	"bytes"
	"hash/maphash"
	"maps"
)

var fingerprintSeed = maphash.MakeSeed()

// Fingerprint returns a hash of an object's bytes, which is never 0. The item of a LIST and the
// object of a WATCH event have the same fingerprint if the same server wrote them for the same
// version. To that end, a JSON apiVersion and kind in front of the other members are ignored: the
// items of built-in kinds lack them. Objects with different fingerprints may still have the same
// content; see Same. The hash differs between processes.
func Fingerprint(enc Encoding, object []byte) uint64 {
	if enc == JSON {
		object = behindTypeMeta(object)
	}
	return max(1, maphash.Bytes(fingerprintSeed, object))
}

// behindTypeMeta returns object from its first member that is neither apiVersion nor kind.
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

// isTypeMeta reports whether name starts with the member name apiVersion or kind.
func isTypeMeta(name []byte) bool {
	return bytes.HasPrefix(name, []byte(`kind"`)) || bytes.HasPrefix(name, []byte(`apiVersion"`))
}

// Same reports whether two objects have the same content. That is the same bytes, or in JSON the
// same members in any order, each with the same bytes. In JSON apiVersion and kind are ignored.
func Same(enc Encoding, a, b []byte) bool {
	if enc != JSON || bytes.Equal(a, b) {
		return bytes.Equal(a, b)
	}
	ours, ok := contentOf(a)
	theirs, okToo := contentOf(b)
	return ok && okToo && maps.EqualFunc(ours, theirs, bytes.Equal)
}

// contentOf returns the members of an object other than apiVersion and kind. ok is false if the
// object cannot be split into members.
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
