package audit

import (
	"container/heap"
	"errors"
	"io"
)

// maxOpen bounds the logs that are read at the same time, and with them buffers and open files.
// Rotated logs of one server follow each other; as many as this overlap where that many servers'
// logs are given. Of more, some are read late.
const maxOpen = 64

// Merge reads several logs as one, in the order of time, however they were given: the logs of
// several servers side by side, and rotated ones one behind the other. Make one with NewMerge. It
// is not safe for concurrent use.
type Merge struct {
	waiting []waiting // by the time of their first event, the first last
	open    heads     // a heap, by the time of the event that is next
	told    bool      // open[0]'s event has been returned
	closed  Counts
}

// waiting is a log that has not begun.
type waiting struct {
	first int64
	begin func() (*Log, error) // at its first event
}

// head is a log and the event that it is at.
type head struct {
	log   *Log
	event *Event
}

// heads is a heap of logs by the time of their next events.
type heads []head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].event.Staged < h[j].event.Staged }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(head)) }
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// NewMerge finds out where each log begins. The name - is stdin. The error is that of the first log
// that cannot be read, or that is none. The caller calls Close.
func NewMerge(names []string, stdin io.Reader) (*Merge, error) {
	m := &Merge{}
	for _, name := range names {
		if err := m.add(name, stdin); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// add opens a log as far as its first event. A file is opened again when its time has come; stdin
// and pipes, which give what they have only once, stay open.
func (m *Merge) add(name string, stdin io.Reader) error {
	open := func() (*Log, error) { return Open(name) }
	if name == "-" {
		open = func() (*Log, error) { return NewLog("stdin", stdin) }
	}
	log, err := open()
	if err != nil {
		return err
	}
	event, err := log.Next()
	if errors.Is(err, io.EOF) { // a log that has just been rotated is empty
		m.closed.Add(log.Counts())
		return log.Close()
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	if !log.whole {
		heap.Push(&m.open, head{log, event})
		return nil
	}
	w := waiting{first: event.Staged, begin: open}
	at := len(m.waiting)
	for at > 0 && m.waiting[at-1].first < w.first {
		at--
	}
	m.waiting = append(m.waiting, waiting{})
	copy(m.waiting[at+1:], m.waiting[at:])
	m.waiting[at] = w
	return log.Close()
}

// Next returns the next event, valid until the next call. The error is io.EOF at the end.
func (m *Merge) Next() (*Event, error) {
	if m.told {
		m.told = false
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	for n := len(m.waiting); n > 0 && m.due(m.waiting[n-1]); n-- {
		log, err := m.waiting[n-1].begin()
		if err != nil {
			return nil, err
		}
		m.waiting = m.waiting[:n-1]
		if err := m.push(log); err != nil {
			return nil, err
		}
	}
	if len(m.open) == 0 {
		return nil, io.EOF
	}
	m.told = true
	return m.open[0].event, nil
}

// due reports whether a log begins before the next event.
func (m *Merge) due(w waiting) bool {
	return len(m.open) == 0 || len(m.open) < maxOpen && w.first <= m.open[0].event.Staged
}

// push takes up a log at its next event, or lets go of it at its end.
func (m *Merge) push(log *Log) error {
	event, err := log.Next()
	if err == nil {
		heap.Push(&m.open, head{log, event})
		return nil
	}
	m.closed.Add(log.Counts())
	return errors.Join(notEOF(err), log.Close())
}

// advance reads the next event of the log whose event was returned last.
func (m *Merge) advance() error {
	log := m.open[0].log
	event, err := log.Next()
	if err == nil {
		m.open[0].event = event
		heap.Fix(&m.open, 0)
		return nil
	}
	heap.Pop(&m.open)
	m.closed.Add(log.Counts())
	return errors.Join(notEOF(err), log.Close())
}

// notEOF returns err, unless it is the end.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Counts returns how much has been read.
func (m *Merge) Counts() Counts {
	c := m.closed
	for _, h := range m.open {
		c.Add(h.log.Counts())
	}
	return c
}

// Close lets go of the logs that are open.
func (m *Merge) Close() error {
	var errs []error
	for _, h := range m.open {
		errs = append(errs, h.log.Close())
	}
	m.open, m.waiting = nil, nil
	return errors.Join(errs...)
}
