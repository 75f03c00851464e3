package wire

import (
	"fmt"
	"io"
)

// jsonStream reads JSON from a body, value by value. What lies between the start of its window and
// pos was read but is kept: what points there stays where it is, relative to the window, until
// release.
type jsonStream struct {
	buf  buffer
	pos  int
	keep int // how much may be kept before pos, in bytes; 0: nothing need be
	scan jsonScanner
}

// release gives up everything before pos.
func (j *jsonStream) release() {
	j.buf.consume(j.pos)
	j.pos = 0
}

// offset is where in the body pos is.
func (j *jsonStream) offset() int64 { return j.buf.off + int64(j.pos) }

func (j *jsonStream) fail(what string, err error) error {
	return j.buf.fail(j.pos, what, err)
}

func (j *jsonStream) malformed(what string) error { return j.fail(what, ErrMalformed) }

// peek returns the next byte that is not whitespace, and stops at it.
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

// want passes over the byte c.
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

// early is err where the body must not end.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// separator reads what stands between the members or elements of a container whose last byte is
// end. It reports whether that is the end.
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

// value reads a value that stands depth deep, of at most limit bytes, and leaves pos behind it.
// names are noted in j.scan.spans. The bytes are those of the window: valid until the next read.
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

// skip reads a value that stands depth deep and does not keep it, nor anything before it.
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

// name reads the name of a member and the colon behind it. It appends the name to dst.
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
