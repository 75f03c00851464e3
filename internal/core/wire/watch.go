package wire

import (
	"encoding/binary"
	"io"
	"strconv"
)

// EventType is the type of a watch event. The zero value is no type.
type EventType uint8

const (
	Added EventType = iota + 1
	Modified
	Deleted
	Bookmark
	Error
)

var eventTypes = [...]string{Added: "ADDED", Modified: "MODIFIED", Deleted: "DELETED", Bookmark: "BOOKMARK", Error: "ERROR"}

// String returns the name of the type in a body: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
func (t EventType) String() string {
	if t < Added || t > Error {
		return "event(" + strconv.Itoa(int(t)) + ")"
	}
	return eventTypes[t]
}

// ParseEventType returns the type whose name is s, such as ADDED. ok is false if there is no such
// type.
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
	// TypeMeta is the object's apiVersion and kind. In JSON, a field is empty if the object does not
	// state it.
	TypeMeta TypeMeta
	// Object is the object, in protobuf without its envelope. In an Error event it is a Status. In a
	// Bookmark event it has only a resourceVersion and perhaps annotations. It is valid until the next
	// call of WatchReader.Next.
	Object []byte
}

// AppendEvent appends one event of a WATCH body, with object in the form that AppendObject writes.
// It does not retain object. The appended bytes can be sent to several watchers.
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

// WatchReader splits the body of a WATCH into events. It has one read buffer, which contains the
// current event. If the buffer already contains the whole next event, Next does not call the body's
// Read. WatchReader starts no goroutine and does not close the body. It is not safe for concurrent
// use.
type WatchReader struct {
	body watchBody
	err  error
}

type watchBody interface {
	next() (Event, error)
	buffered() int
	offset() int64
}

// NewWatchReader returns a reader of the events in r. r must contain the decoded body, without a
// Content-Encoding (see NewBody). NewWatchReader does not read from r.
func NewWatchReader(r io.Reader, enc Encoding, lim Limits) *WatchReader {
	if enc == Protobuf {
		return &WatchReader{body: &protoWatch{buf: buffer{r: r}, max: lim.maxObject()}}
	}
	return &WatchReader{body: &jsonWatch{jsonBody: jsonBody{buf: buffer{r: r}}, max: lim.maxObject()}}
}

// Next blocks until the next event is complete, and returns it. Its Object is valid until the next
// call and must not be modified. If the body ends between two events, Next returns io.EOF. If it
// ends inside an event, the error is a *SyntaxError that wraps io.ErrUnexpectedEOF. An ERROR event
// is returned as an event; see DecodeStatus. An *ItemError concerns the object of one event only,
// and the next call returns the event after it. Every other error is final.
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

// Buffered returns the number of bytes that were read from the body but not yet returned, without
// leading whitespace. If it is above 0, a part of the next event has arrived, so Next will probably
// not block long.
func (w *WatchReader) Buffered() int { return w.body.buffered() }

// Offset returns the number of consumed bytes of the body, up to the end of the last returned
// event.
func (w *WatchReader) Offset() int64 { return w.body.offset() }
