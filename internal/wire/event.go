package wire

import (
	"encoding/binary"
	"strconv"
)

// EventType is the type of a watch event. The zero value is none.
type EventType uint8

const (
	Added EventType = iota + 1
	Modified
	Deleted
	Bookmark
	Error
)

var eventTypes = [...]string{Added: "ADDED", Modified: "MODIFIED", Deleted: "DELETED", Bookmark: "BOOKMARK", Error: "ERROR"}

// String returns the type as it stands in a body: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
func (t EventType) String() string {
	if t < Added || t > Error {
		return "event(" + strconv.Itoa(int(t)) + ")"
	}
	return eventTypes[t]
}

// ParseEventType returns the type that String writes as s. ok is false if there is none.
func ParseEventType(s string) (EventType, bool) {
	for t := Added; t <= Error; t++ {
		if s == eventTypes[t] {
			return t, true
		}
	}
	return 0, false
}

// Event is one event of a WATCH.
type Event struct {
	Type EventType
	// TypeMeta is the object's apiVersion and kind. In JSON it is empty if the object does not say.
	TypeMeta TypeMeta
	// Object is the object, in protobuf without its envelope. In an Error event it is a Status. In
	// a Bookmark event it has only a resourceVersion and perhaps annotations. It is valid until the
	// reader's next call; see WatchReader.Next.
	Object []byte
}

// AppendEvent appends one event as the body of a WATCH has it. It keeps nothing of object, which is
// written as AppendObject does. Several watchers can share the bytes.
func AppendEvent(dst []byte, enc Encoding, t EventType, tm TypeMeta, object []byte) []byte {
	if enc != Protobuf {
		dst = append(dst, `{"type":"`...)
		dst = append(dst, t.String()...)
		dst = append(dst, `","object":`...)
		dst = AppendObject(dst, enc, tm, object)
		return append(dst, '}', '\n')
	}
	name := t.String()
	inner := envelopeSize(tm, len(object))
	extension := bytesSize(inner)
	dst = binary.BigEndian.AppendUint32(dst, uint32(bytesSize(len(name))+bytesSize(extension)))
	dst = appendBytes(dst, watchEventType, name)
	dst = appendTag(dst, watchEventObject, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(extension))
	dst = appendTag(dst, rawExtensionRaw, typeBytes)
	dst = binary.AppendUvarint(dst, uint64(inner))
	return appendEnvelope(dst, tm, object)
}
