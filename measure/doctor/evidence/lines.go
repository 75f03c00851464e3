package evidence

import (
	"bytes"
	"io"
)

// bufferSize limits how much of a log is read ahead. A longer line is not parsed in the buffer.
const bufferSize = 256 << 10

// lines reads a log line by line. A line that does not fit into the buffer can be read in parts,
// with Read.
type lines struct {
	src      io.Reader
	buf      []byte
	from, to int
	err      error // the error of src, returned after the buffered bytes

	bytes  int64 // how many were read
	number int64 // how many lines have been started
	inLine bool  // a part of the current line has been read

	joins  bool // Read continues after the end of the line
	joined bool // Read has continued after the end of a line
	passed bool // the end of the line has been read
}

// fill reads more of the log into the buffer, after the unread bytes.
func (l *lines) fill() {
	if l.buf == nil {
		l.buf = make([]byte, bufferSize)
	}
	if l.from > 0 {
		l.to = copy(l.buf, l.buf[l.from:l.to])
		l.from = 0
	}
	n, err := l.src.Read(l.buf[l.to:])
	l.to += n
	l.bytes += int64(n)
	l.err = err
}

// line returns the rest of the line without its end, and whether that rest is completely in the
// buffer. It does not consume the bytes.
func (l *lines) line() (line []byte, whole bool) {
	l.passed = false
	for seen := 0; ; {
		if i := bytes.IndexByte(l.buf[l.from+seen:l.to], '\n'); i >= 0 {
			return l.buf[l.from : l.from+seen+i], true
		}
		seen = l.to - l.from
		switch {
		case l.err != nil:
			return l.buf[l.from:l.to], seen > 0
		case seen > 0 && seen == len(l.buf):
			return l.buf[l.from:l.to], false
		}
		l.fill()
	}
}

// ended reports whether the whole log has been read.
func (l *lines) ended() bool { return l.from == l.to && l.err != nil }

// Read reads the rest of the line. At the end of the line it returns io.EOF, unless joins is set.
func (l *lines) Read(p []byte) (int, error) {
	for l.from == l.to {
		if l.err != nil {
			return 0, l.err
		}
		l.fill()
	}
	text := l.buf[l.from:l.to]
	end := bytes.IndexByte(text, '\n')
	switch {
	case end == 0 && !l.joins:
		return 0, io.EOF
	case end == 0:
		l.joined, text = true, text[:1]
	case end > 0:
		text = text[:end]
	}
	n := copy(p, text)
	l.begin()
	l.passed = end == 0
	l.inLine = !l.passed
	l.from += n
	return n, nil
}

// begin counts the current line, unless it has already been counted.
func (l *lines) begin() {
	if !l.inLine {
		l.number++
	}
	l.inLine = true
}

// take consumes a whole line and its end.
func (l *lines) take(line []byte) {
	l.begin()
	l.inLine = false
	l.from = min(l.from+len(line)+1, l.to)
}

// endLine consumes the rest of the line and its line break. It does nothing if Read has already
// consumed the line break.
func (l *lines) endLine() {
	if l.passed {
		return
	}
	l.begin()
	l.inLine = false
	for !l.ended() {
		if i := bytes.IndexByte(l.buf[l.from:l.to], '\n'); i >= 0 {
			l.from += i + 1
			return
		}
		l.from = l.to
		if l.err == nil {
			l.fill()
		}
	}
}
