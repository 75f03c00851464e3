package audit

import (
	"bytes"
	"io"
)

// bufferSize bounds what is read ahead of a log, and the lines that are parsed where they are.
const bufferSize = 256 << 10

// reader reads a log by characters, and by lines where they fit into its buffer. Inside of a string
// it decodes the escapes, so that JSON in a string reads like any other.
type reader struct {
	src      io.Reader
	buf      []byte
	from, to int
	err      error // of src, reported when the buffer is used up

	bytes  int64 // read
	number int64 // of lines that have begun
	inLine bool  // something of a line has been read

	multiline bool // the end of a line is white space
	quoted    bool // inside of a string
	decoded   []byte
}

// fill reads more, behind what is left of the buffer.
func (r *reader) fill() {
	if r.buf == nil {
		r.buf = make([]byte, bufferSize)
	}
	if r.from > 0 {
		r.to = copy(r.buf, r.buf[r.from:r.to])
		r.from = 0
	}
	n, err := r.src.Read(r.buf[r.to:])
	r.to += n
	r.bytes += int64(n)
	r.err = err
}

// line returns the next line without its end if it is in the buffer, and leaves it there.
func (r *reader) line() (line []byte, ok bool) {
	for seen := 0; ; {
		if i := bytes.IndexByte(r.buf[r.from+seen:r.to], '\n'); i >= 0 {
			return r.buf[r.from : r.from+seen+i], true
		}
		seen = r.to - r.from
		switch {
		case r.err != nil:
			return r.buf[r.from:r.to], seen > 0
		case seen > 0 && seen == len(r.buf):
			return nil, false
		}
		r.fill()
	}
}

// ended reports whether all of the log has been read.
func (r *reader) ended() bool { return r.from == r.to && r.err != nil }

// endLine passes the rest of the line, and its end.
func (r *reader) endLine() {
	if !r.inLine {
		r.number++
	}
	r.inLine, r.quoted, r.decoded = false, false, r.decoded[:0]
	for !r.ended() {
		if i := bytes.IndexByte(r.buf[r.from:r.to], '\n'); i >= 0 {
			r.from += i + 1
			return
		}
		r.from = r.to
		if r.err == nil {
			r.fill()
		}
	}
}

// raw returns the next byte of the log, and false at its end.
func (r *reader) raw() (byte, bool) {
	for r.from == r.to {
		if r.err != nil {
			return 0, false
		}
		r.fill()
	}
	return r.buf[r.from], true
}

// peek returns the next character: 0 at the end of the line, of the string, or of the log.
func (r *reader) peek() byte {
	if len(r.decoded) > 0 {
		return r.decoded[0]
	}
	c, ok := r.raw()
	switch {
	case !ok || c == '\n' && (r.quoted || !r.multiline) || c == '"' && r.quoted:
		return 0
	case c == '\\' && r.quoted:
		return r.decode()
	}
	return c
}

// decode reads an escape and returns the first byte of what it means: 0 if it is none. Each half of
// a surrogate pair is a replacement character.
func (r *reader) decode() byte {
	escape := [6]byte{'\\'}
	n := 1
	for want := 2; n < want; n++ {
		r.from++
		c, ok := r.raw()
		if !ok || c == '\n' {
			return 0
		}
		escape[n] = c
		if n == 1 && c == 'u' {
			want = len(escape)
		}
	}
	r.decoded, _ = unescape(r.decoded[:0], escape[:n])
	r.from++
	if len(r.decoded) == 0 {
		return 0
	}
	return r.decoded[0]
}

// pass passes the character that peek has returned.
func (r *reader) pass() {
	if len(r.decoded) > 0 {
		r.decoded = r.decoded[1:]
		return
	}
	if !r.inLine {
		r.inLine = true
		r.number++
	}
	if r.buf[r.from] == '\n' {
		r.inLine = false
	}
	r.from++
}

// space passes white space and returns the character behind it.
func (r *reader) space() byte {
	for {
		switch c := r.peek(); c {
		case ' ', '\t', '\r', '\n':
			r.pass()
		default:
			return c
		}
	}
}

// plain returns the characters of a string that are in the buffer, up to its end or an escape.
func (r *reader) plain() []byte {
	if r.quoted || len(r.decoded) > 0 {
		return nil
	}
	if r.from == r.to && r.err == nil {
		r.fill()
	}
	text := r.buf[r.from:r.to]
	for _, end := range [...]byte{'"', '\\', '\n'} {
		if i := bytes.IndexByte(text, end); i >= 0 {
			text = text[:i]
		}
	}
	return text
}
