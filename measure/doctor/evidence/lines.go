package evidence

import (
	"bytes"
	"io"
)

// bufferSize bounds what is read ahead of a log, and the lines that are parsed in the buffer.
const bufferSize = 256 << 10

// lines reads a log line by line. It gives a line that does not fit into its buffer in parts, by
// Read.
type lines struct {
	src      io.Reader
	buf      []byte
	from, to int
	err      error // of src, reported when the buffer is used up

	bytes  int64 // read
	number int64 // of lines that have begun
	inLine bool  // part of a line has been read

	joins  bool // Read continues behind the end of a line
	joined bool // it has done so
	passed bool // the end of the line has been read
}

// fill reads more of the log into the buffer, behind the unread bytes.
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

// line returns the rest of the line without its end, and whether all of that is in the buffer. It
// leaves the bytes there.
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

// ended reports whether all of the log has been read.
func (l *lines) ended() bool { return l.from == l.to && l.err != nil }

// Read reads the rest of the line. At its end it returns io.EOF, unless lines are joined.
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

// begin counts the line, if it has not been counted.
func (l *lines) begin() {
	if !l.inLine {
		l.number++
	}
	l.inLine = true
}

// take skips a whole line and its end.
func (l *lines) take(line []byte) {
	l.begin()
	l.inLine = false
	l.from = min(l.from+len(line)+1, l.to)
}

// endLine skips the rest of the line and its end, unless Read has returned the end.
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
