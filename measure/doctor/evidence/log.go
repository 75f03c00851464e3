package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"github.com/weirproject/weir/internal/core/compress"
)

// ErrNotALog is wrapped by the error for a log that has lines, but no Event.
var ErrNotALog = errors.New("no audit log")

// Counts say how much was read.
type Counts struct {
	Bytes     int64 `json:"bytes"` // uncompressed
	Lines     int64 `json:"lines"`
	Events    int64 `json:"events"`    // of all stages
	Malformed int64 `json:"malformed"` // lines, and objects in them, that are not an Event
	TooLong   int64 `json:"tooLong"`   // events whose fields have more than MaxLine bytes
	// Misdated counts the events that were skipped because the events around them contradict their
	// time.
	Misdated int64 `json:"misdated"`

	// Causes counts the malformed lines and objects by their Fault.
	Causes map[string]int64 `json:"causes,omitempty"`
	// Damaged names the compressed logs that could not be read to their end, and why.
	Damaged []string `json:"damaged,omitempty"`
}

// Complete reports whether all of the logs was read. Parts that were not read can hide a client.
func (c *Counts) Complete() bool {
	return c.Malformed+c.TooLong+c.Misdated+int64(len(c.Damaged)) == 0
}

// Add adds the counts of other.
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
}

// Log reads the events of one log. Make one with NewLog. It is not safe for concurrent use.
type Log struct {
	name    string
	records records
	order   order
	file    *os.File // which Close closes; nil: none
	packed  *source  // the compressed bytes; nil: the log is not compressed
	damage  error    // the error that ended a compressed log early
	event   *Event   // of Merge: the next one
}

// NewLog reads a log from r. It decompresses the log if the first bytes are those of gzip, and
// skips a byte order mark. The name is used in errors. Close does not close r.
func NewLog(name string, r io.Reader) (*Log, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	l := &Log{name: name, records: records{lines: lines{src: in}}}
	magic, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		l.packed = &source{Reader: in}
		l.records.src, l.records.err = compress.NewGzipReader(l.packed)
	case bytes.Equal(magic, []byte("\ufeff")):
		_, err = in.Discard(len(magic))
		return l, err
	}
	return l, nil
}

// Close ends reading, and closes the file if Log has opened one.
func (l *Log) Close() error {
	l.records.close()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

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

// Next returns the next event, which is valid until the next call. It counts and skips malformed
// lines, events that are too long and events whose time is wrong, and ignores empty lines. A
// damaged compressed log ends at the damage. The error is io.EOF at the end, an error that wraps
// ErrNotALog at the end of a log that has lines but no event, or an error of reading.
func (l *Log) Next() (*Event, error) { return l.order.next(l.read) }

// read returns the next event of the log, also if its time is wrong.
func (l *Log) read() (*Event, error) {
	r := &l.records
	if r.bytes == 0 {
		if err := l.checkFormat(); err != nil {
			return nil, err
		}
	}
	if e := r.next(); e != nil {
		return e, nil
	}
	switch {
	case errors.Is(r.err, io.EOF):
	case l.packed != nil && l.packed.err == nil:
		l.damage = r.err
	default:
		return nil, fmt.Errorf("read %s: %w", l.name, r.err)
	}
	return nil, l.end()
}

// end returns io.EOF at the end of a log, or an error that wraps ErrNotALog if the file was none.
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

// farOff is how far an event's time may be from the times around it. The lines of a log are in the
// order of time, except for seconds. A server that was down leaves a gap, and then events continue.
const farOff = int64(24 * time.Hour / time.Microsecond)

// order skips single events whose time is wrong, because of a wrong clock or a damaged line. Such
// an event would delay its log until all others are read, and stretch the report over decades. An
// event is skipped if its two neighbours are near each other and it is far from them. At the start
// and the end of a log, the neighbours are the two events that follow or precede. The zero value is
// ready.
type order struct {
	begun     bool
	last      int64    // the time of the event that was returned last
	agreed    bool     // the event before it was near it
	lookahead []*Event // deep copies of events that were read and not returned; at most two
	misdated  int64
}

func near(a, b int64) bool { return max(a, b)-min(a, b) <= farOff }

// next returns the next event of read that is not skipped.
func (o *order) next(read func() (*Event, error)) (*Event, error) {
	for {
		e, err := o.pull(read)
		if err != nil {
			return nil, err
		}
		if o.begun && near(e.Staged, o.last) {
			o.agreed, o.last = true, e.Staged
			return e, nil
		}
		e = e.clone()
		if o.contradicted(e.Staged, read) {
			o.misdated++
			continue
		}
		o.begun, o.agreed, o.last = true, false, e.Staged
		return e, nil
	}
}

// pull returns the next event of the lookahead, or else of read.
func (o *order) pull(read func() (*Event, error)) (*Event, error) {
	if len(o.lookahead) == 0 {
		return read()
	}
	e := o.lookahead[0]
	o.lookahead = o.lookahead[1:]
	return e, nil
}

// contradicted reports whether the neighbours of an event at a time show that its time is wrong.
// The events that it reads go to the lookahead.
func (o *order) contradicted(at int64, read func() (*Event, error)) bool {
	want := 1
	if !o.begun {
		want = 2
	}
	for len(o.lookahead) < want {
		e, err := read()
		if err != nil {
			break // the next read returns it again
		}
		o.lookahead = append(o.lookahead, e.clone())
	}
	switch n := len(o.lookahead); {
	case n < want:
		return o.begun && o.agreed && n == 0
	case o.begun:
		return near(o.lookahead[0].Staged, o.last) && !near(o.lookahead[0].Staged, at)
	}
	return near(o.lookahead[0].Staged, o.lookahead[1].Staged) && !near(o.lookahead[0].Staged, at)
}
