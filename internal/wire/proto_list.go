package wire

import (
	"io"
	"math"
	"strings"
)

// Fields of every list message, of ListMeta, and of its shardInfo.
const (
	listMetadata = 1
	listItems    = 2

	listMetaResourceVersion = 2
	listMetaContinue        = 3
	listMetaRemaining       = 4
	listMetaShardInfo       = 5

	shardInfoSelector = 1
)

// maxDescription bounds a list's typeMeta and its metadata, with the continue token, in bytes each.
const maxDescription = 1 << 20

// protoList splits a list in the protobuf envelope into items.
type protoList struct {
	buf  buffer
	max  int
	left int64 // bytes of the list message that are still to be read
	list *ListReader
	seen fieldSet // of the envelope
	meta bool     // the list's metadata has been read
}

func (p *protoList) offset() int64 { return p.buf.off }

func (p *protoList) next() ([]byte, error) {
	if !p.seen.has(unknownRaw) {
		if err := p.open(); err != nil {
			return nil, err
		}
	}
	for p.left > 0 {
		num, typ, err := p.tag("list", true)
		if err != nil {
			return nil, err
		}
		switch {
		case num == listItems && typ == typeBytes:
			return p.bytes("item", p.max, true)
		case num == listMetadata && typ == typeBytes:
			err = p.readMeta()
		case num <= listItems:
			return nil, p.buf.fail(0, "list: metadata or item is not a message", ErrMalformed)
		default:
			err = p.skip("list", num, typ, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, p.close()
}

// open reads up to the start of the list message.
func (p *protoList) open() error {
	if err := p.buf.need(len(protoMagic)); err != nil {
		return p.buf.fail(p.buf.len(), "list", err)
	}
	if string(p.buf.window()[:len(protoMagic)]) != protoMagic {
		return p.buf.fail(0, `list: does not start with k8s\0`, ErrMalformed)
	}
	p.buf.consume(len(protoMagic))
	for {
		if p.buf.len() == 0 {
			if err := p.buf.more(); err == io.EOF {
				return p.buf.fail(0, "envelope: no list", io.ErrUnexpectedEOF)
			}
		}
		raw, err := p.envelopeField()
		if err != nil || raw {
			return err
		}
	}
}

// envelopeField reads one field of the envelope. It reports whether the field is the list message,
// of which it has read only the length.
func (p *protoList) envelopeField() (raw bool, err error) {
	at := p.buf.off
	num, typ, err := p.tag("envelope", false)
	if err != nil {
		return false, err
	}
	if num > unknownContentType {
		return false, p.skip("envelope", num, typ, false)
	}
	if err := p.seen.check(num, typ, typeBytes, "envelope", at); err != nil {
		return false, err
	}
	switch num {
	case unknownRaw:
		return true, p.openList(at)
	case unknownTypeMeta:
		if p.seen.has(unknownRaw) {
			return false, malformed(at, "envelope: typeMeta behind the list that it describes")
		}
		return false, p.readTypeMeta()
	}
	v, err := p.bytes("envelope", maxDescription, false)
	if err != nil {
		return false, err
	}
	return false, checkContent(num, v, at)
}

func (p *protoList) readTypeMeta() error {
	b, err := p.bytes("typeMeta", maxDescription, false)
	if err != nil {
		return err
	}
	var e envelope
	if err := e.cutTypeMeta(b, p.buf.off-int64(len(b))); err != nil {
		return err
	}
	p.list.typeMeta.set(e.apiVersion, e.kind)
	return nil
}

// openList reads the length of the list message. It refuses messages of other kinds, whose field 2
// may be anything. The error for a Status is a *StatusError.
func (p *protoList) openList(at int64) error {
	n, err := p.varint("list", false)
	if err != nil {
		return err
	}
	if n > math.MaxInt64-1<<32 {
		return malformedf(at, "list: length %d", n)
	}
	tm := p.list.typeMeta
	switch {
	case tm.Kind == "Status":
		return p.readStatus(at, n)
	case !strings.HasSuffix(tm.Kind, "List"):
		return malformedf(at, "a %.80q where a list was expected", tm.Kind)
	case tm.Kind == "List":
		return malformed(at, "a List of objects of any kind, which are wrapped once more")
	}
	p.left = int64(n)
	return nil
}

func (p *protoList) readStatus(at int64, n uint64) error {
	if n > uint64(p.max) {
		return tooLarge(at, "status", n, p.max)
	}
	if err := p.buf.need(int(n)); err != nil {
		return p.buf.fail(p.buf.len(), "status", err)
	}
	return DecodeStatus(Protobuf, p.buf.window()[:n])
}

func (p *protoList) readMeta() error {
	at := p.buf.off
	if p.meta {
		return malformed(at, "list: metadata twice")
	}
	p.meta = true
	b, err := p.bytes("list metadata", maxDescription, true)
	if err != nil {
		return err
	}
	return p.list.meta.readProto(b, p.buf.off-int64(len(b)))
}

func (m *ListMeta) readProto(b []byte, offset int64) error {
	var seen fieldSet
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return fieldError(at, "list metadata", next)
		}
		if f.num >= listMetaResourceVersion && f.num <= listMetaShardInfo {
			want := uint8(typeBytes)
			if f.num == listMetaRemaining {
				want = typeVarint
			}
			if err := seen.check(f.num, f.typ, want, "list metadata", at); err != nil {
				return err
			}
		}
		switch f.num {
		case listMetaResourceVersion:
			m.ResourceVersion = string(f.bytes)
		case listMetaContinue:
			m.Continue = string(f.bytes)
		case listMetaRemaining:
			m.RemainingItemCount = int64(f.varint)
		case listMetaShardInfo:
			m.ShardSelector = protoShardInfo(f.bytes)
		}
		i = next
	}
	return nil
}

// protoShardInfo returns the selector in a ShardInfo message, or "".
func protoShardInfo(b []byte) (selector string) {
	var f protoField
	for i := 0; i < len(b); {
		if i = f.consume(b, i); i < 0 {
			return ""
		}
		if f.num == shardInfoSelector && f.typ == typeBytes {
			selector = string(f.bytes)
		}
	}
	return selector
}

// close reads the rest of the envelope. It returns io.EOF at the end of the body.
func (p *protoList) close() error {
	for {
		if p.buf.len() == 0 {
			if err := p.buf.more(); err == io.EOF {
				return io.EOF
			}
		}
		if _, err := p.envelopeField(); err != nil {
			return err
		}
	}
}
