package wire

import (
	"encoding/binary"
	"io"
)

// eventOverhead bounds what an event has besides its object, in bytes.
const eventOverhead = 4 << 10

// frameHeader is the size of the length in front of each frame, in bytes.
const frameHeader = 4

// protoWatch splits a body of length-delimited frames, each of which is a WatchEvent.
type protoWatch struct {
	buf      buffer
	max      int
	typeMeta TypeMeta // of the last event; it is nearly always that of the next
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

// event parses the WatchEvent b, which starts at offset.
func (p *protoWatch) event(b []byte, offset int64) (e Event, err error) {
	var object []byte
	var objectAt int64
	var seen fieldSet
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return e, fieldError(at, "watch event", next)
		}
		if f.num <= watchEventObject {
			if err := seen.check(f.num, f.typ, typeBytes, "watch event", at); err != nil {
				return e, err
			}
		}
		switch f.num {
		case watchEventType:
			if e.Type = eventType(f.bytes); e.Type == 0 {
				return e, malformedf(at, "watch event of type %.40q", f.bytes)
			}
		case watchEventObject:
			objectAt = offset + int64(next-len(f.bytes))
			object = f.bytes
		}
		i = next
	}
	if e.Type == 0 || !seen.has(watchEventObject) {
		return e, malformed(offset, "watch event without type or object")
	}
	raw, rawAt, err := cutRawExtension(object, objectAt)
	var env envelope
	if err == nil {
		err = env.cut(raw, rawAt)
	}
	if err != nil && e.Type != Error { // which ends the watch in any case
		err = &ItemError{err}
	}
	if err != nil {
		return Event{}, err
	}
	if len(env.raw) > p.max {
		return e, tooLarge(rawAt, "object", uint64(len(env.raw)), p.max)
	}
	p.typeMeta.set(env.apiVersion, env.kind)
	e.TypeMeta, e.Object = p.typeMeta, env.raw
	return e, nil
}

// cutRawExtension returns the content of the RawExtension b, and its offset.
func cutRawExtension(b []byte, offset int64) (raw []byte, rawAt int64, err error) {
	found := false
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return nil, 0, fieldError(at, "watch event's object", next)
		}
		if f.num == rawExtensionRaw {
			if f.typ != typeBytes || found {
				return nil, 0, malformed(at, "watch event's object: not one value of bytes")
			}
			found = true
			raw, rawAt = f.bytes, offset+int64(next-len(f.bytes))
		}
		i = next
	}
	if !found {
		return nil, 0, malformed(offset, "watch event without object")
	}
	return raw, rawAt, nil
}

// eventType returns the type with the name b, or 0.
func eventType(b []byte) EventType {
	t, _ := ParseEventType(string(b))
	return t
}
