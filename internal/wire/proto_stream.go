package wire

import "fmt"

// The methods here read a protobuf message from the body, piece by piece. With inList set, what
// they read must be within the rest of the list message.

func (p *protoList) varint(what string, inList bool) (uint64, error) {
	for {
		v, n := consumeVarint(p.buf.window(), 0)
		if n == protoTruncated {
			if inList && int64(p.buf.len()) >= p.left {
				return 0, p.buf.fail(0, what+": runs beyond the list", ErrMalformed)
			}
			if err := p.buf.need(p.buf.len() + 1); err != nil {
				return 0, p.buf.fail(p.buf.len(), what, err)
			}
			continue
		}
		if n < 0 {
			return 0, p.buf.fail(0, what+": not a varint", ErrMalformed)
		}
		return v, p.take(n, what, inList)
	}
}

// take consumes n bytes of the window.
func (p *protoList) take(n int, what string, inList bool) error {
	if inList {
		if int64(n) > p.left {
			return p.buf.fail(0, what+": runs beyond the list", ErrMalformed)
		}
		p.left -= int64(n)
	}
	p.buf.consume(n)
	return nil
}

// tag reads a field's number and type.
func (p *protoList) tag(what string, inList bool) (num uint32, typ uint8, err error) {
	at := p.buf.off
	tag, err := p.varint(what, inList)
	if err != nil {
		return 0, 0, err
	}
	if tag>>3 == 0 || tag>>3 > maxFieldNumber {
		return 0, 0, malformedf(at, "%s: field number %d", what, tag>>3)
	}
	return uint32(tag >> 3), uint8(tag & 7), nil
}

// bytes reads the length and the content of a field, of at most limit bytes. The bytes are valid
// until the next read.
func (p *protoList) bytes(what string, limit int, inList bool) ([]byte, error) {
	at := p.buf.off
	n, err := p.varint(what, inList)
	if err != nil {
		return nil, err
	}
	if inList && n > uint64(p.left) {
		return nil, malformedf(at, "%s: length %d runs beyond the list", what, n)
	}
	if n > uint64(limit) {
		return nil, tooLarge(at, what, n, limit)
	}
	if err := p.buf.need(int(n)); err != nil {
		return nil, p.buf.fail(p.buf.len(), what, err)
	}
	b := p.buf.window()[:n:n]
	return b, p.take(int(n), what, inList)
}

// skip reads the value of a field without keeping it in the buffer.
func (p *protoList) skip(what string, num uint32, typ uint8, inList bool) error {
	n := uint64(0)
	switch typ {
	case typeVarint:
		_, err := p.varint(what, inList)
		return err
	case typeFixed64:
		n = 8
	case typeFixed32:
		n = 4
	case typeBytes:
		var err error
		if n, err = p.varint(what, inList); err != nil {
			return err
		}
	case typeGroup:
		return p.skipGroup(what, num, inList)
	default:
		return p.buf.fail(0, fmt.Sprintf("%s: wire type %d", what, typ), ErrMalformed)
	}
	if inList && n > uint64(p.left) {
		return p.buf.fail(0, what+": a field runs beyond the list", ErrMalformed)
	}
	for n > 0 {
		if err := p.buf.need(1); err != nil {
			return p.buf.fail(0, what, err)
		}
		part := min(n, uint64(p.buf.len()))
		if err := p.take(int(part), what, inList); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (p *protoList) skipGroup(what string, num uint32, inList bool) error {
	open := make([]uint32, 1, maxGroups)
	open[0] = num
	for len(open) > 0 {
		num, typ, err := p.tag(what, inList)
		if err != nil {
			return err
		}
		switch typ {
		case typeGroup:
			if len(open) == maxGroups {
				return p.buf.fail(0, what+": groups nested too deep", ErrMalformed)
			}
			open = append(open, num)
		case typeEnd:
			if open[len(open)-1] != num {
				return p.buf.fail(0, what+": a group ends that did not start", ErrMalformed)
			}
			open = open[:len(open)-1]
		default:
			if err := p.skip(what, num, typ, inList); err != nil {
				return err
			}
		}
	}
	return nil
}

func tooLarge(offset int64, what string, n uint64, limit int) error {
	return &SyntaxError{Offset: offset, What: fmt.Sprintf("%s of %d bytes, the limit is %d", what, n, limit), Err: ErrTooLarge}
}
