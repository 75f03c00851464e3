package evidence

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
)

// maxOpen limits the number of logs that are read at the same time, each with its buffers. That
// suffices: rotated logs of one server follow each other, and only logs of different servers
// overlap. If more logs overlap, Merge reads some of them late.
const maxOpen = 64

// Merge reads several logs as one, in the order of time. It reads logs of several servers at the
// same time, and the rotated logs of one server one after the other. The order of the names does
// not matter. Make a Merge with NewMerge. A Merge is not safe for concurrent use.
type Merge struct {
	waiting []waiting // by the time of the first event, latest first
	open    []*Log    // each with its next event
	used    *Log      // the log whose event was returned last; nil if none
	closed  Counts
}

// waiting is a log of which no event has been returned. Its file stays open, because the server may
// rename or remove the file before Merge reads it.
type waiting struct {
	first int64 // the time of its first event
	name  string
	file  *os.File
}

// NewMerge reads the first event of each log. The name - is stdin. NewMerge returns an error if it
// cannot read a log, or if a log is no audit log. The caller must call Close.
func NewMerge(names []string, stdin io.Reader) (*Merge, error) {
	m := &Merge{}
	for _, name := range names {
		if err := m.add(name, stdin); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	slices.SortStableFunc(m.waiting, func(a, b waiting) int { return cmp.Compare(b.first, a.first) })
	return m, nil
}

// add opens a log and reads its first event. If the log is a file, add frees its buffers, and Next
// reads the file again when its events are due. Stdin and pipes can be read only once, so they stay
// open with their buffers.
func (m *Merge) add(name string, stdin io.Reader) error {
	log, again, err := openLog(name, stdin)
	if err != nil {
		return err
	}
	if err := m.begin(log); err != nil || !again || log.event == nil {
		return err
	}
	log.records.close()
	m.open = m.open[:len(m.open)-1]
	m.waiting = append(m.waiting, waiting{log.event.Staged, name, log.file})
	return nil
}

// begin reads the first event of a log. An empty log is no error.
func (m *Merge) begin(log *Log) error {
	m.open = append(m.open, log)
	return m.advance(log)
}

// advance reads the next event of an open log. At the end of the log, advance closes the log.
func (m *Merge) advance(log *Log) (err error) {
	if log.event, err = log.Next(); err == nil {
		return nil
	}
	m.open = slices.DeleteFunc(m.open, func(l *Log) bool { return l == log })
	m.closed.Add(log.Counts())
	if errors.Is(err, io.EOF) { // also if the log is empty, because it was just rotated
		err = nil
	}
	return errors.Join(err, log.Close())
}

// again opens a waiting log at its start.
func (m *Merge) again(w waiting) error {
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return errors.Join(err, w.file.Close())
	}
	log, err := newFileLog(w.name, w.file)
	if err != nil {
		return err
	}
	return m.begin(log)
}

// Next returns the next event, which is valid until the next call. At the end of all logs the error
// is io.EOF.
func (m *Merge) Next() (*Event, error) {
	if log := m.used; log != nil {
		m.used = nil
		if err := m.advance(log); err != nil {
			return nil, err
		}
	}
	for n := len(m.waiting); n > 0 && m.isDue(m.waiting[n-1]); n-- {
		w := m.waiting[n-1]
		m.waiting = m.waiting[:n-1]
		if err := m.again(w); err != nil {
			return nil, err
		}
	}
	if len(m.open) == 0 {
		return nil, io.EOF
	}
	m.used = m.earliest()
	return m.used.event, nil
}

// isDue reports whether a waiting log must be opened before the next event is returned. That is the
// case if no log is open, or if the waiting log's first event is not later than the next event of
// the open logs. While maxOpen logs are open, no waiting log is due.
func (m *Merge) isDue(w waiting) bool {
	return len(m.open) == 0 || len(m.open) < maxOpen && w.first <= m.earliest().event.Staged
}

// earliest returns the open log with the earliest event.
func (m *Merge) earliest() *Log {
	return slices.MinFunc(m.open, func(a, b *Log) int { return cmp.Compare(a.event.Staged, b.event.Staged) })
}

// Counts returns the counts of what has been read so far.
func (m *Merge) Counts() Counts {
	c := m.closed
	for _, log := range m.open {
		c.Add(log.Counts())
	}
	return c
}

// Close closes all logs and files.
func (m *Merge) Close() error {
	var errs []error
	for _, log := range m.open {
		errs = append(errs, log.Close())
	}
	for _, w := range m.waiting {
		errs = append(errs, w.file.Close())
	}
	m.open, m.waiting = nil, nil
	return errors.Join(errs...)
}
