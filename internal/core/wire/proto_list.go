package wire

import (
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of every list message, of ListMeta, and of its shardInfo.
const (
	listMetadata = 1
	listItems    = 2

	listMetaResourceVersion = 2
	listMetaContinue        = 3
	listMetaRemaining       = 4
	listMetaShardInfo       = 5

	shardInfoSelector = 1
)

// maxDescription is the maximum size of a list's typeMeta, and of its metadata with the continue
// token, in bytes.
const maxDescription = 1 << 20

// protoList splits a protobuf list in its envelope into items.
type protoList struct {
	buf  buffer
	max  int
	list *ListReader
	seen [unknownContentType + 1]bool // which fields of the envelope have been read
	meta bool                         // the list's metadata has been read
	// left is the number of bytes of the current message that have not been consumed. It is
	// math.MaxInt64 while p reads the envelope, because the envelope ends where the body ends.
	left int64
}

func (p *protoList) offset() int64 { return p.buf.off }

func (p *protoList) next() ([]byte, error) {
	if !p.seen[unknownRaw] {
		if err := p.open(); err != nil {
			return nil, err
		}
	}
	for p.left > 0 {
		num, typ, err := p.tag("list")
		if err != nil {
			return nil, err
		}
		switch {
		case num == listItems && typ == typeBytes:
			return p.bytes("item", p.max)
		case num == listMetadata && typ == typeBytes:
			err = p.readMeta()
		case num <= listItems:
			return nil, p.fail("list: metadata or item is not a message")
		default:
			err = p.skip("list", num, typ)
		}
		if err != nil {
			return nil, err
		}
	}
	p.left = math.MaxInt64
	return nil, p.readEnvelope(io.EOF)
}

// open reads the envelope up to the start of the list message.
func (p *protoList) open() error {
	if err := p.buf.need(len(protoMagic)); err != nil {
		return p.buf.fail(p.buf.len(), "list", err)
	}
	if string(p.buf.window()[:len(protoMagic)]) != protoMagic {
		return p.fail(`list: does not start with k8s\0`)
	}
	p.buf.consume(len(protoMagic))
	p.left = math.MaxInt64
	return p.readEnvelope(io.ErrUnexpectedEOF)
}

// readEnvelope reads the envelope's fields until it has read the tag and the length of a list
// message. If the body ends first, readEnvelope returns atEnd: io.EOF after the list, and an error
// before it.
func (p *protoList) readEnvelope(atEnd error) error {
	for {
		if p.buf.len() == 0 {
			if err := p.buf.more(); err == io.EOF && atEnd == io.EOF {
				return io.EOF
			} else if err == io.EOF {
				return p.buf.fail(0, "envelope: no list", atEnd)
			}
		}
		if raw, err := p.envelopeField(); err != nil || raw {
			return err
		}
	}
}

// envelopeField reads one field of the envelope. raw is true if the field is the list message;
// envelopeField then reads only the field's length.
func (p *protoList) envelopeField() (raw bool, err error) {
	at := p.buf.off
	num, typ, err := p.tag("envelope")
	if err != nil {
		return false, err
	}
	if num > unknownContentType {
		return false, p.skip("envelope", num, typ)
	}
	if err := checkField(num, typ, typeBytes, p.seen[num], "envelope", at); err != nil {
		return false, err
	}
	p.seen[num] = true
	if num == unknownRaw {
		return true, p.openList(at)
	}
	v, err := p.bytes("envelope", maxDescription)
	switch {
	case err != nil:
		return false, err
	case num != unknownTypeMeta:
		return false, checkContent(num, v, at)
	case p.seen[unknownRaw]:
		return false, malformed(at, "envelope: typeMeta after the list that it describes")
	}
	return false, p.list.typeMeta.readProto(v, p.buf.off-int64(len(v)))
}

// openList reads the length of the list message. It returns an error if the kind is not a list,
// because field 2 of other kinds need not contain items. The error for a Status is a *StatusError.
func (p *protoList) openList(at int64) error {
	n, err := p.varint("list")
	if err != nil {
		return err
	}
	kind := p.list.typeMeta.Kind
	switch {
	case n > math.MaxInt64-1<<32:
		return malformedf(at, "list: length %d", n)
	case kind == "List":
		return malformed(at, "a List of objects of any kind, each in an envelope")
	case strings.HasSuffix(kind, "List"):
		p.left = int64(n)
		return nil
	case kind != "Status":
		return malformedf(at, "a %.80q where a list was expected", kind)
	}
	status, err := p.content("status", n, p.max)
	if err != nil {
		return err
	}
	return DecodeStatus(Protobuf, status)
}

func (p *protoList) readMeta() error {
	if p.meta {
		return p.fail("list: metadata twice")
	}
	p.meta = true
	b, err := p.bytes("list metadata", maxDescription)
	if err != nil {
		return err
	}
	return p.list.meta.readProto(b, p.buf.off-int64(len(b)))
}

// readProto sets m from b, a ListMeta that starts at offset.
func (m *ListMeta) readProto(b []byte, offset int64) error {
	f := [...]protoField{1: bytesField, 2: bytesField, 3: bytesField, 4: {typ: typeVarint}, 5: bytesField}
	if err := readFields(b, f[:], "list metadata", offset); err != nil {
		return err
	}
	m.ResourceVersion = string(f[listMetaResourceVersion].bytes)
	m.Continue = string(f[listMetaContinue].bytes)
	if f[listMetaRemaining].num != 0 {
		m.RemainingItemCount = int64(f[listMetaRemaining].varint)
	}
	// A malformed selector causes no error, because Weir does not depend on the selector.
	info := [...]protoField{shardInfoSelector: bytesField}
	if readFields(f[listMetaShardInfo].bytes, info[:], "", 0) == nil {
		m.ShardSelector = string(info[shardInfoSelector].bytes)
	}
	return nil
}

// The methods below read a message from the body, in pieces. The argument what is the name of the
// part in errors.

func (p *protoList) fail(what string) error { return p.buf.fail(0, what, ErrMalformed) }

func (p *protoList) varint(what string) (uint64, error) {
	for {
		v, n := consumeVarint(p.buf.window(), 0)
		switch {
		case n == protoTruncated && int64(p.buf.len()) >= p.left, int64(n) > p.left:
			return 0, p.fail(what + ": runs beyond the list")
		case n == protoTruncated:
			if err := p.buf.need(p.buf.len() + 1); err != nil {
				return 0, p.buf.fail(p.buf.len(), what, err)
			}
		case n < 0:
			return 0, p.fail(what + ": not a varint")
		default:
			p.take(n)
			return v, nil
		}
	}
}

// take consumes n bytes of the window. The current message must have at least n bytes left.
func (p *protoList) take(n int) {
	p.buf.consume(n)
	if p.left != math.MaxInt64 {
		p.left -= int64(n)
	}
}

// tag reads the number and the type of a field.
func (p *protoList) tag(what string) (num uint32, typ uint8, err error) {
	at := p.buf.off
	tag, err := p.varint(what)
	if err != nil {
		return 0, 0, err
	}
	if tag>>3 == 0 || tag>>3 > uint64(maxFieldNumber) {
		return 0, 0, malformedf(at, "%s: field number %d", what, tag>>3)
	}
	return uint32(tag >> 3), uint8(tag & 7), nil
}

// bytes reads the length and the content of a field. A content of more than limit bytes is an
// error. The returned bytes are valid until the next read.
func (p *protoList) bytes(what string, limit int) ([]byte, error) {
	n, err := p.varint(what)
	if err != nil {
		return nil, err
	}
	return p.content(what, n, limit)
}

// content reads n bytes. It returns an error if n is above limit.
func (p *protoList) content(what string, n uint64, limit int) ([]byte, error) {
	switch {
	case n > uint64(p.left):
		return nil, p.fail(fmt.Sprintf("%s: length %d runs beyond the list", what, n))
	case n > uint64(limit):
		return nil, tooLarge(p.buf.off, what, n, limit)
	}
	if err := p.buf.need(int(n)); err != nil {
		return nil, p.buf.fail(p.buf.len(), what, err)
	}
	b := p.buf.window()[:n:n]
	p.take(int(n))
	return b, nil
}

// skip reads the value of a field and discards it piece by piece. Only a group, which Kubernetes
// does not use, must fit into the buffer.
func (p *protoList) skip(what string, num uint32, typ uint8) error {
	n := uint64(0)
	var err error
	switch typ {
	case typeVarint:
		_, err = p.varint(what)
		return err
	case typeFixed64:
		n = 8
	case typeFixed32:
		n = 4
	case typeBytes:
		if n, err = p.varint(what); err != nil {
			return err
		}
	default:
		return p.skipGroup(what, num, typ)
	}
	if n > uint64(p.left) {
		return p.fail(what + ": a field runs beyond the list")
	}
	for n > 0 {
		if err := p.buf.need(1); err != nil {
			return p.buf.fail(0, what, err)
		}
		part := min(n, uint64(p.buf.len()))
		p.take(int(part))
		n -= part
	}
	return nil
}

func (p *protoList) skipGroup(what string, num uint32, typ uint8) error {
	for {
		held := p.buf.len()
		w := p.buf.window()[:min(int64(held), p.left)]
		n := protoResult(0, protowire.ConsumeFieldValue(protowire.Number(num), protowire.Type(typ), w))
		switch {
		case n == protoTruncated && int64(held) >= p.left:
			return p.fail(what + ": a group runs beyond the list")
		case n == protoTruncated && held > maxDescription:
			return tooLarge(p.buf.off, what+": group", uint64(held), maxDescription)
		case n == protoTruncated:
			// Double the window, so that a group that arrives in many pieces is not scanned again for each
			// piece.
			if err := p.buf.need(2*held + 1); err != nil && p.buf.len() == held {
				return p.buf.fail(held, what, err)
			}
		case n < 0:
			return p.fail(fmt.Sprintf("%s: wire type %d", what, typ))
		default:
			p.take(n)
			return nil
		}
	}
}

func tooLarge(offset int64, what string, n uint64, limit int) error {
	return &SyntaxError{Offset: offset, What: fmt.Sprintf("%s of %d bytes, the limit is %d", what, n, limit), Err: ErrTooLarge}
}
