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

// Counts describe how much was read.
type Counts struct {
	Bytes     int64 `json:"bytes"` // uncompressed
	Lines     int64 `json:"lines"`
	Events    int64 `json:"events"`    // of all stages
	Malformed int64 `json:"malformed"` // lines, and objects in lines, that are not an Event
	TooLong   int64 `json:"tooLong"`   // events whose fields have more than MaxLine bytes
	// Misdated counts events that were skipped because their time contradicts the times of their
	// neighbours.
	Misdated int64 `json:"misdated"`

	// Causes counts the malformed lines and objects by Fault.
	Causes map[string]int64 `json:"causes,omitempty"`
	// Damaged names the compressed logs that could not be read to the end, each with the reason.
	Damaged []string `json:"damaged,omitempty"`
}

// Complete reports whether the logs were read completely. A part that was not read can hide a
// client.
func (c *Counts) Complete() bool {
	return c.Malformed+c.TooLong+c.Misdated+int64(len(c.Damaged)) == 0
}

// Add adds other to c.
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

// Log reads the events of one log. Make a Log with NewLog. A Log is not safe for concurrent use.
type Log struct {
	name    string
	records records
	order   order
	file    *os.File // Close closes it; nil if there is none
	packed  *source  // reads the compressed bytes; nil if the log is not compressed
	damage  error    // the error at which a compressed log ended early
	event   *Event   // the next event, for Merge
}

// NewLog returns a Log that reads from r. It decompresses the log if it starts like gzip, and skips
// a byte order mark. Errors contain the name. Close does not close r.
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

// Counts returns the counts of what has been read so far.
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
// lines, events that are too long, and events whose time is wrong. It ignores empty lines. A
// damaged compressed log ends at the damage. The error is io.EOF at the end of the log. If the log
// has lines but no event, the error wraps ErrNotALog instead. Other errors are errors of the
// reader.
func (l *Log) Next() (*Event, error) { return l.order.next(l.read) }

// read returns the next event of the log, even if its time is wrong.
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

// end returns the error for the end of a log: io.EOF, or an error that wraps ErrNotALog if the log
// has lines but no event.
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

// farOff is the greatest believable difference between an event's time and its neighbours' times.
// In a log, neighbouring events are in the order of time, or out of order by some seconds. If a
// server was down, the log has a gap, but the events after the gap are near each other.
const farOff = int64(24 * time.Hour / time.Microsecond)

// order skips single events with a wrong time, from a wrong clock or a damaged line. Such an event
// would delay its log until all other logs are read, and would make the report span decades. An
// event is skipped if its two neighbours are near each other and far from the event. At the start
// of a log the neighbours are the two next events, and at its end the two previous events. The zero
// value is ready.
type order struct {
	begun     bool
	last      int64    // the time of the last returned event
	agreed    bool     // the last returned event was near the event before it
	lookahead []*Event // deep copies of events that were read but not returned; at most two
	misdated  int64
}

func near(a, b int64) bool { return max(a, b)-min(a, b) <= farOff }

// next returns the next event of read that does not have a wrong time.
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

// pull returns the next event of the lookahead, or of read if the lookahead is empty.
func (o *order) pull(read func() (*Event, error)) (*Event, error) {
	if len(o.lookahead) == 0 {
		return read()
	}
	e := o.lookahead[0]
	o.lookahead = o.lookahead[1:]
	return e, nil
}

// contradicted reports whether the neighbours of an event show that its time is wrong. The
// parameter at is this time. contradicted puts events that it reads into the lookahead.
func (o *order) contradicted(at int64, read func() (*Event, error)) bool {
	want := 1
	if !o.begun {
		want = 2
	}
	for len(o.lookahead) < want {
		e, err := read()
		if err != nil {
			break // the next call of read returns the error again
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
