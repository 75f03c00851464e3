package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
)

// ErrNotALog is wrapped by the error of a log that has lines and no Event.
var ErrNotALog = errors.New("no audit log")

// Counts say how much was read.
type Counts struct {
	Bytes     int64 `json:"bytes"` // uncompressed
	Lines     int64 `json:"lines"`
	Events    int64 `json:"events"`    // of all stages
	Malformed int64 `json:"malformed"` // lines, and objects in them, that are no Event
	TooLong   int64 `json:"tooLong"`   // events of which more than MaxLine bytes are to be kept
	// Misdated counts the events that were skipped because the ones around them contradict their
	// time.
	Misdated int64 `json:"misdated"`

	// Causes counts the malformed ones by their Fault.
	Causes map[string]int64 `json:"causes,omitempty"`
	// Damaged names the compressed logs that could not be read to their end, and why.
	Damaged []string `json:"damaged,omitempty"`
	Missing []string `json:"missing,omitempty"` // logs that went before it was their turn, and how
}

// Complete reports whether all of the logs was read. What was not can hide a client.
func (c *Counts) Complete() bool {
	return c.Malformed+c.TooLong+c.Misdated == 0 && len(c.Damaged)+len(c.Missing) == 0
}

// Add adds other's.
func (c *Counts) Add(other Counts) {
	c.Bytes += other.Bytes
	c.Lines += other.Lines
	c.Events += other.Events
	c.Malformed += other.Malformed
	c.TooLong += other.TooLong
	c.Misdated += other.Misdated
	if c.Causes = maps.Clone(c.Causes); c.Causes == nil && len(other.Causes) > 0 {
		c.Causes = map[string]int64{}
	}
	for cause, n := range other.Causes {
		c.Causes[cause] += n
	}
	c.Damaged = append(c.Damaged, other.Damaged...)
	c.Missing = append(c.Missing, other.Missing...)
}

// Log reads the events of one log. Make one with NewLog. It is not safe for concurrent use.
type Log struct {
	name    string
	records records
	close   func() error
	event   Event
	order   order
	damage  error // what ended a compressed log early

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
	l := &Log{name: name, records: records{reader: reader{src: in}}, close: func() error { return nil }}
	magic, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		l.records.src = &unzipper{from: &source{Reader: in}}
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
	r := &l.records
	c := Counts{
		Bytes: r.bytes, Lines: r.number, Events: r.events, Malformed: r.malformed, TooLong: r.large,
		Misdated: l.order.misdated, Causes: r.causes,
	}
	if l.damage != nil {
		c.Damaged = []string{fmt.Sprintf("%s: %v behind line %d", l.name, l.damage, r.number)}
	}
	return c
}

// Next returns the next event, valid until the next call. Malformed lines, events that are too long
// and those whose time cannot be are counted and skipped, empty lines ignored. A compressed log
// that is damaged ends there. The error is io.EOF at the end, one that wraps ErrNotALog at the end
// of a log that has lines and no event, or what went wrong when reading.
func (l *Log) Next() (*Event, error) { return l.order.next(l.read) }

// read returns the next event of the log, whatever its time is.
func (l *Log) read() (*Event, error) {
	r := &l.records
	if r.bytes == 0 {
		if err := l.checkFormat(); err != nil {
			return nil, err
		}
	}
	if r.next(&l.event) {
		return &l.event, nil
	}
	switch {
	case errors.Is(r.err, errDamaged):
		l.damage = errors.Unwrap(r.err)
	case !errors.Is(r.err, io.EOF):
		return nil, fmt.Errorf("read %s: %w", l.name, r.err)
	}
	return nil, l.end()
}

// end returns io.EOF after a log, and an error that wraps ErrNotALog after something else.
func (l *Log) end() error {
	r := &l.records
	switch {
	case r.events > 0 || l.damage != nil || r.malformed == 0 && r.large == 0:
		return io.EOF
	case r.malformed == 0:
		return fmt.Errorf("%s is %w: without their objects, its events are longer than %d bytes", l.name, ErrNotALog, MaxLine)
	}
	hint := ""
	if fault, ok := errors.AsType[Fault](r.first); ok && fault.Hint() != "" {
		hint = "; " + fault.Hint()
	}
	return fmt.Errorf("%s is %w of kube-apiserver: %s: %w%s", l.name, ErrNotALog, r.bad, r.first, hint)
}
