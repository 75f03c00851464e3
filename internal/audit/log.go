package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNotALog is wrapped by the error of a log that has lines and no Event.
var ErrNotALog = errors.New("no audit log")

// Counts say how much was read.
type Counts struct {
	Bytes     int64 `json:"bytes"` // uncompressed
	Lines     int64 `json:"lines"`
	Events    int64 `json:"events"`    // of all stages
	Malformed int64 `json:"malformed"` // lines that are no Event
	TooLong   int64 `json:"tooLong"`   // lines of more than MaxLine bytes, which were skipped
	// Misdated counts the events that were skipped because the ones around them contradict their time.
	Misdated int64 `json:"misdated"`

	// Damaged names the compressed logs that could not be read to their end, and why.
	Damaged []string `json:"damaged,omitempty"`
	Missing []string `json:"missing,omitempty"` // logs that went before it was their turn, and how
}

// Add adds other's.
func (c *Counts) Add(other Counts) {
	c.Bytes += other.Bytes
	c.Lines += other.Lines
	c.Events += other.Events
	c.Malformed += other.Malformed
	c.TooLong += other.TooLong
	c.Misdated += other.Misdated
	c.Damaged = append(c.Damaged, other.Damaged...)
	c.Missing = append(c.Missing, other.Missing...)
}

// Log reads the events of one log. Make one with NewLog. It is not safe for concurrent use.
type Log struct {
	name  string
	lines lines
	close func() error
	event Event
	order order

	events, malformed int64
	bad               string // the start of the first malformed line
	damage            error  // what ended a compressed log early

	file *os.File // regular: can be read again from its start; nil: it is not
	info os.FileInfo
}

// newFileLog reads a log from a file until ctx ends. The log has the file then, also in an error.
func newFileLog(ctx context.Context, name string, f *os.File, info os.FileInfo) (*Log, error) {
	regular := info.Mode().IsRegular()
	src := io.Reader(&detached{ctx: ctx, src: f})
	if regular {
		src = checked{ctx, f}
	}
	l, err := NewLog(name, src)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.close = f.Close
	if regular {
		l.file, l.info = f, info
	}
	return l, nil
}

// NewLog reads a log from r, compressed by gzip or not, which its first bytes tell. A byte order
// mark is skipped. Errors have the name. Close does not close r.
func NewLog(name string, r io.Reader) (*Log, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	l := &Log{name: name, lines: lines{src: in}, close: func() error { return nil }}
	magic, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		l.lines.src = &unzipper{from: &source{Reader: in}}
	case bytes.Equal(magic, []byte("\ufeff")):
		_, err = in.Discard(len(magic))
		return l, err
	}
	return l, nil
}

// Close lets go of the file.
func (l *Log) Close() error { return l.close() }

// Counts returns how much has been read.
func (l *Log) Counts() Counts {
	c := Counts{
		Bytes: l.lines.bytes, Lines: l.lines.number, Events: l.events, Malformed: l.malformed, TooLong: l.lines.tooLong,
		Misdated: l.order.misdated,
	}
	if l.damage != nil {
		c.Damaged = []string{fmt.Sprintf("%s: %v behind line %d", l.name, l.damage, l.lines.number)}
	}
	return c
}

// Next returns the next event, valid until the next call. Malformed lines, those that are too long
// and those whose time cannot be are counted and skipped, empty ones ignored. A compressed log that
// is damaged ends there. The error is io.EOF at the end, one that wraps ErrNotALog at the end of a
// log that has lines and no event, or what went wrong when reading.
func (l *Log) Next() (*Event, error) { return l.order.next(l.read) }

// read returns the next event of the log, whatever its time is.
func (l *Log) read() (*Event, error) {
	for {
		line, err := l.lines.next()
		if errors.Is(err, errDamaged) {
			l.damage, err = errors.Unwrap(err), io.EOF
		}
		if errors.Is(err, io.EOF) {
			return nil, l.end()
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", l.name, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if l.event.Parse(line) == nil {
			l.events++
			return &l.event, nil
		}
		if l.malformed++; l.bad == "" {
			l.bad = fmt.Sprintf("line %d is %q", l.lines.number, cut(line))
		}
	}
}

// end returns io.EOF after a log, and an error that wraps ErrNotALog after something else.
func (l *Log) end() error {
	switch {
	case l.events > 0 || l.damage != nil || l.malformed == 0 && l.lines.tooLong == 0:
		return io.EOF
	case l.malformed == 0:
		return fmt.Errorf("%s is %w: its lines are longer than %d bytes", l.name, ErrNotALog, MaxLine)
	}
	return fmt.Errorf("%s is %w of kube-apiserver: no line is an Event of audit.k8s.io/v1; %s", l.name, ErrNotALog, l.bad)
}

// cut returns the start of a line.
func cut(line []byte) []byte {
	const enough = 60
	if len(line) <= enough {
		return line
	}
	return append(bytes.Clone(line[:enough]), "…"...)
}
