package wire

import (
	"encoding/binary"
	"io"
)

// eventOverhead is the maximum size of an event without its object, in bytes.
const eventOverhead = 4 << 10

// frameHeader is the number of bytes before each frame, which contain the frame's length.
const frameHeader = 4

// protoWatch splits a body of length-delimited frames into events. Each frame is a WatchEvent.
type protoWatch struct {
	buf      buffer
	max      int
	typeMeta TypeMeta // of the last event; kept because the next event nearly always has the same type
}

func (p *protoWatch) buffered() int { return p.buf.len() }

func (p *protoWatch) offset() int64 { return p.buf.off }

func (p *protoWatch) next() (Event, error) {
	if p.buf.len() == 0 {
		if err := p.buf.more(); err == io.EOF {
			return Event{}, io.EOF
		}
	}
	if err := p.buf.need(frameHeader); err != nil {
		return Event{}, p.buf.fail(p.buf.len(), "watch frame's length", err)
	}
	n := binary.BigEndian.Uint32(p.buf.window())
	if uint64(n) > uint64(p.max)+eventOverhead {
		return Event{}, tooLarge(p.buf.off, "watch frame", uint64(n), p.max)
	}
	size := frameHeader + int(n)
	if err := p.buf.need(size); err != nil {
		return Event{}, p.buf.fail(p.buf.len(), "watch frame", err)
	}
	e, err := p.event(p.buf.window()[frameHeader:size:size], p.buf.off+frameHeader)
	if err != nil && final(err) {
		return Event{}, err
	}
	p.buf.consume(size)
	return e, err
}

// event parses b, a WatchEvent that starts at offset.
func (p *protoWatch) event(b []byte, offset int64) (e Event, err error) {
	f := [...]protoField{1: bytesField, 2: bytesField}
	if err := readFields(b, f[:], "watch event", offset); err != nil {
		return e, err
	}
	typ, object := &f[watchEventType], &f[watchEventObject]
	if typ.num == 0 || object.num == 0 {
		return e, malformed(offset, "watch event without type or object")
	}
	if e.Type = eventType(typ.bytes); e.Type == 0 {
		return e, malformedf(offset+int64(typ.from), "watch event of type %.40q", typ.bytes)
	}
	e.Object, err = p.object(object.bytes, offset+int64(object.from))
	switch {
	case err != nil && e.Type == Error: // an ERROR event ends the watch in any case
		return Event{}, err
	case err != nil:
		return Event{}, &ItemError{err}
	case len(e.Object) > p.max:
		return e, tooLarge(offset, "object", uint64(len(e.Object)), p.max)
	}
	e.TypeMeta = p.typeMeta
	return e, nil
}

// object returns the object in b, a RawExtension that starts at offset. It sets p.typeMeta to the
// object's type.
func (p *protoWatch) object(b []byte, offset int64) ([]byte, error) {
	f := [...]protoField{rawExtensionRaw: bytesField}
	if err := readFields(b, f[:], "watch event's object", offset); err != nil {
		return nil, err
	}
	raw := &f[rawExtensionRaw]
	if raw.num == 0 {
		return nil, malformed(offset, "watch event without object")
	}
	return cutEnvelope(raw.bytes, offset+int64(raw.from), &p.typeMeta)
}

// eventType returns the type whose name is b, or 0.
func eventType(b []byte) EventType {
	t, _ := ParseEventType(string(b))
	return t
}
