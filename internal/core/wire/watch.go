package wire

import (
	"encoding/binary"
	"io"
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

// String returns the type as bodies have it: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
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
	// TypeMeta is the object's apiVersion and kind. In JSON it is empty if the object states none.
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
	dst = appendLength(dst, watchEventObject, extension)
	dst = appendLength(dst, rawExtensionRaw, inner)
	return appendEnvelope(dst, tm, object)
}

// WatchReader cuts the body of a WATCH into events. It holds one read buffer and one event. If a
// whole event has arrived already, Next reads from the body at most once. It starts no goroutine
// and does not close the body. It is not safe for concurrent use.
type WatchReader struct {
	body watchBody
	err  error
}

// watchBody is what both encodings implement.
type watchBody interface {
	next() (Event, error)
	buffered() int
	offset() int64
}

// NewWatchReader returns a reader of the events in r. Any Content-Encoding must have been undone
// (see NewBody). It reads nothing yet.
func NewWatchReader(r io.Reader, enc Encoding, lim Limits) *WatchReader {
	if enc == Protobuf {
		return &WatchReader{body: &protoWatch{buf: buffer{r: r}, max: lim.maxObject()}}
	}
	return &WatchReader{body: &jsonWatch{jsonBody: jsonBody{buf: buffer{r: r}}, max: lim.maxObject()}}
}

// Next returns the next event and blocks until it is complete. Its Object is valid until the next
// call and must not be written to. If the body ends between two events, Next returns io.EOF; within
// an event, a *SyntaxError that wraps io.ErrUnexpectedEOF. An ERROR event is returned as an event;
// see DecodeStatus. A *ItemError is about the object of one event, and the next call returns the
// event after it. Every other error is final.
func (w *WatchReader) Next() (Event, error) {
	if w.err != nil {
		return Event{}, w.err
	}
	e, err := w.body.next()
	if err != nil && final(err) {
		w.err = err
	}
	return e, err
}

// Buffered returns how many bytes were read but not yet returned, without whitespace in front. If
// it is above 0, a part of the next event was received, so Next will likely not wait.
func (w *WatchReader) Buffered() int { return w.body.buffered() }

// Offset returns how many bytes of the body have been consumed, up to the end of the event last
// returned.
func (w *WatchReader) Offset() int64 { return w.body.offset() }
