package wire

import (
	"fmt"
	"io"
)

// jsonStream reads JSON from a body, value by value. Bytes between the start of the window and pos
// have been read but are kept until release. Until then their positions relative to the window do
// not change.
type jsonStream struct {
	buf  buffer
	pos  int
	keep int // how much may be kept before pos, in bytes; 0: nothing need be
	scan jsonScanner
}

// release lets the buffer discard everything before pos.
func (j *jsonStream) release() {
	j.buf.consume(j.pos)
	j.pos = 0
}

// offset returns the offset of pos in the body.
func (j *jsonStream) offset() int64 { return j.buf.off + int64(j.pos) }

func (j *jsonStream) fail(what string, err error) error {
	return j.buf.fail(j.pos, what, err)
}

func (j *jsonStream) malformed(what string) error { return j.fail(what, ErrMalformed) }

// peek returns the next byte that is not whitespace, without consuming it.
func (j *jsonStream) peek() (byte, error) {
	for {
		w := j.buf.window()
		for ; j.pos < len(w); j.pos++ {
			switch c := w[j.pos]; c {
			case ' ', '\n', '\r', '\t':
			default:
				return c, nil
			}
		}
		if j.keep == 0 {
			j.release()
		} else if j.pos > j.keep {
			return 0, ErrTooLarge
		}
		if err := j.buf.more(); err != nil {
			return 0, err
		}
	}
}

// want consumes the byte c, or returns an error.
func (j *jsonStream) want(c byte, what string) error {
	got, err := j.peek()
	if err != nil {
		return j.fail(what, early(err))
	}
	if got != c {
		return j.malformed(fmt.Sprintf("%s: %q where %q was expected", what, got, c))
	}
	j.pos++
	return nil
}

// early returns io.ErrUnexpectedEOF for io.EOF, and any other error as it is.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// separator consumes the separator between members or elements of a container whose closing byte is
// end. It reports whether the container ended.
func (j *jsonStream) separator(first bool, end byte, what string) (ended bool, err error) {
	c, err := j.peek()
	if err != nil {
		return false, j.fail(what, early(err))
	}
	if c == end {
		j.pos++
		return true, nil
	}
	if first {
		return false, nil
	}
	if c != ',' {
		return false, j.malformed(fmt.Sprintf("%s: %q where a comma was expected", what, c))
	}
	j.pos++
	if c, err = j.peek(); err != nil {
		return false, j.fail(what, early(err))
	}
	if c == end {
		return false, j.malformed(what + ": a comma before its end")
	}
	return false, nil
}

// value reads a value at this depth, of at most limit bytes, and moves pos behind it. The values of
// names are noted in j.scan.spans. The bytes are part of the window and valid until the next read.
// If one of names is there twice, it returns the bytes and an error.
func (j *jsonStream) value(depth int, names []string, limit int, what string) ([]byte, error) {
	if _, err := j.peek(); err != nil {
		return nil, j.fail(what, early(err))
	}
	from := j.pos
	j.scan.start(depth, names)
	for {
		w := j.buf.window()[from:]
		r := j.scan.scan(w)
		j.pos = from + j.scan.at
		if j.scan.at > limit {
			j.pos = from
			return nil, j.fail(fmt.Sprintf("%s of more than %d bytes", what, limit), ErrTooLarge)
		}
		switch r {
		case scanDone:
			return w[:j.scan.at:j.scan.at], nil
		case scanDuplicate:
			return w[:j.scan.at:j.scan.at], j.malformed(what + ": " + scanProblems[r])
		case scanMore:
			if err := j.buf.more(); err != nil {
				j.pos = j.buf.len()
				return nil, j.fail(what, early(err))
			}
		default:
			return nil, j.malformed(what + ": " + scanProblems[r])
		}
	}
}

// skip reads a value at this depth without keeping it or anything before it.
func (j *jsonStream) skip(depth int, what string) error {
	if _, err := j.peek(); err != nil {
		return j.fail(what, early(err))
	}
	j.scan.start(depth, nil)
	for {
		j.release()
		r := j.scan.scan(j.buf.window())
		j.pos, j.scan.at = j.scan.at, 0
		switch r {
		case scanDone:
			return nil
		case scanMore:
			j.release()
			if err := j.buf.more(); err != nil {
				j.pos = j.buf.len()
				return j.fail(what, early(err))
			}
		default:
			return j.malformed(what + ": " + scanProblems[r])
		}
	}
}

// name consumes a member's name and the colon after it. It appends the name to dst.
func (j *jsonStream) name(dst []byte, what string) ([]byte, error) {
	c, err := j.peek()
	if err != nil {
		return dst, j.fail(what, early(err))
	}
	if c != '"' {
		return dst, j.malformed(fmt.Sprintf("%s: %q where a name was expected", what, c))
	}
	v, err := j.value(1, nil, maxDescription, what)
	if err != nil {
		return dst, err
	}
	return unescape(dst, v[1:len(v)-1]), j.want(':', what)
}
