package audit

import (
	"bytes"
	"io"
)

const (
	// MaxLine bounds a line, and thereby the buffer. kube-apiserver's own limit for a request is 3
	// MiB, and logs that have objects in them are rare; longer lines are skipped and counted.
	MaxLine = 4 << 20

	firstBuffer = 256 << 10
)

// lines cuts a stream into lines. Its buffer grows up to MaxLine and one byte.
type lines struct {
	src      io.Reader
	buf      []byte
	from, to int
	err      error // of src, told when the buffer is used up

	bytes   int64 // read
	number  int64 // of lines, those that are skipped included
	tooLong int64
}

// next returns the next line without its end, valid until the next call. Lines that are longer than
// MaxLine are skipped. The error is src's: io.EOF at the end.
func (l *lines) next() ([]byte, error) {
	skipping := false
	for seen := 0; ; {
		if i := bytes.IndexByte(l.buf[l.from+seen:l.to], '\n'); i >= 0 {
			line := l.buf[l.from : l.from+seen+i]
			l.from += seen + i + 1
			seen = 0
			l.number++
			if skipping {
				skipping = false
				continue
			}
			return line, nil
		}
		seen = l.to - l.from
		if l.err != nil {
			return l.last(skipping)
		}
		if seen > MaxLine {
			if !skipping {
				skipping = true
				l.tooLong++
			}
			l.from, l.to, seen = 0, 0, 0
		}
		l.fill()
	}
}

// last returns what stands behind the last end of a line, once, and then the error.
func (l *lines) last(skipping bool) ([]byte, error) {
	line := l.buf[l.from:l.to]
	l.from = l.to
	if len(line) > 0 || skipping {
		l.number++
	}
	if len(line) > MaxLine && !skipping {
		skipping = true
		l.tooLong++
	}
	if len(line) == 0 || skipping {
		return nil, l.err
	}
	return line, nil
}

// fill reads more, behind what is left of the buffer.
func (l *lines) fill() {
	if l.from > 0 {
		l.to = copy(l.buf, l.buf[l.from:l.to])
		l.from = 0
	}
	if l.to == len(l.buf) {
		l.buf = append(l.buf, make([]byte, min(max(len(l.buf), firstBuffer), MaxLine+1-len(l.buf)))...)
	}
	n, err := l.src.Read(l.buf[l.to:])
	l.to += n
	l.bytes += int64(n)
	l.err = err
}
