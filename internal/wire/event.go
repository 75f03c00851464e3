package wire

import "strconv"

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
