package evidence

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// maxOpen bounds the logs that are read at the same time, and with them buffers and open files.
// Rotated logs of one server follow each other, and logs of several servers overlap. If more logs
// overlap, some are read late.
const maxOpen = 64

// maxHeld bounds the files that stay open while they wait. If there are more, those that wait
// longest stay open, such as the log that the server writes to.
const maxHeld = 256

// Merge reads several logs as one, in the order of time: the logs of several servers at the same
// time, and rotated ones one after the other. The order of the names does not matter. Make a Merge
// with NewMerge. It is not safe for concurrent use.
type Merge struct {
	ctx     context.Context
	waiting []*waiting // by the time of their first event, in reverse order
	held    int        // how many of waiting have a file
	open    heads      // a heap, by the time of the next event
	used    bool       // the event of open[0] has been returned
	closed  Counts
}

// waiting is a log whose events have not been returned.
type waiting struct {
	first int64 // the time of its first event
	name  string
	file  *os.File // nil: closed, to be opened again
	info  os.FileInfo
}

// removedFile is the error for a file that was closed while it waited, and cannot be opened again.
type removedFile string

func (r removedFile) Error() string { return string(r) }

// head is a log and its next event.
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

// NewMerge reads the first event of each log. The name - is stdin. When ctx ends, NewMerge and Next
// return its error, also while a pipe or stdin has no data; a read of stdin continues in its own
// goroutine. NewMerge fails if a log cannot be read or is no audit log. The caller must call Close.
func NewMerge(ctx context.Context, names []string, stdin io.Reader) (*Merge, error) {
	m := &Merge{ctx: ctx}
	for _, name := range names {
		if err := m.add(name, stdin); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// add reads the first event of a log. Files then wait until their time. Stdin and pipes, which can
// be read only once, stay open at that event.
func (m *Merge) add(name string, stdin io.Reader) error {
	log, err := m.openLog(name, stdin)
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
	if log.file == nil {
		heap.Push(&m.open, head{log, event})
		return nil
	}
	return m.wait(&waiting{event.Staged, name, log.file, log.info})
}

// openLog opens the log with a name.
func (m *Merge) openLog(name string, stdin io.Reader) (*Log, error) {
	if name == "-" {
		return NewLog("stdin", &detached{ctx: m.ctx, src: stdin})
	}
	file, info, err := openFile(m.ctx, name)
	if err != nil {
		return nil, err
	}
	return newFileLog(m.ctx, name, file, info)
}

// wait makes a log wait. Its file stays open, because another file may get its name. If there are
// too many files, wait closes the one that is needed first.
func (m *Merge) wait(w *waiting) error {
	at := len(m.waiting)
	for at > 0 && m.waiting[at-1].first < w.first {
		at--
	}
	m.waiting = slices.Insert(m.waiting, at, w)
	if m.held++; m.held <= maxHeld {
		return nil
	}
	for _, w := range slices.Backward(m.waiting) {
		if w.file != nil {
			return m.release(w).Close()
		}
	}
	return nil
}

// release removes the file from a waiting log and returns it.
func (m *Merge) release(w *waiting) *os.File {
	file := w.file
	w.file = nil
	m.held--
	return file
}

// begin starts to read a log that has waited, or counts it as missing if its file was removed.
func (m *Merge) begin(w *waiting) error {
	file, err := m.again(w)
	if why, is := errors.AsType[removedFile](err); is {
		m.closed.Missing = append(m.closed.Missing, fmt.Sprintf("%s %v", w.name, why))
		return nil
	}
	if err != nil {
		return err
	}
	log, err := newFileLog(m.ctx, w.name, file, w.info)
	if err != nil {
		return err
	}
	return m.push(log)
}

// again returns the file of a log that has waited, at its start. The error is a removedFile if the
// file was closed, and its name belongs to no file or to another one.
func (m *Merge) again(w *waiting) (*os.File, error) {
	if w.file != nil {
		file := m.release(w)
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
	file, info, err := openFile(m.ctx, w.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, removedFile("was removed")
	}
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, w.info) {
		return nil, errors.Join(removedFile("was renamed or removed, and another file has its name"), file.Close())
	}
	return file, nil
}

// Next returns the next event, which is valid until the next call. The error is io.EOF at the end.
func (m *Merge) Next() (*Event, error) {
	if m.used {
		m.used = false
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	for n := len(m.waiting); n > 0 && m.due(m.waiting[n-1]); n-- {
		w := m.waiting[n-1]
		m.waiting = m.waiting[:n-1]
		if err := m.begin(w); err != nil {
			return nil, err
		}
	}
	if len(m.open) == 0 {
		return nil, io.EOF
	}
	m.used = true
	return m.open[0].event, nil
}

// due reports whether a waiting log starts before the next event.
func (m *Merge) due(w *waiting) bool {
	return len(m.open) == 0 || len(m.open) < maxOpen && w.first <= m.open[0].event.Staged
}

// push adds a log at its next event, or closes it at its end.
func (m *Merge) push(log *Log) error {
	event, err := log.Next()
	if err == nil {
		heap.Push(&m.open, head{log, event})
		return nil
	}
	m.closed.Add(log.Counts())
	return errors.Join(notEOF(err), log.Close())
}

// advance reads the next event of the log whose event was returned.
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

// notEOF returns err, or nil if it is io.EOF.
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

// Close closes all logs and files.
func (m *Merge) Close() error {
	var errs []error
	for _, h := range m.open {
		errs = append(errs, h.log.Close())
	}
	for _, w := range m.waiting {
		if w.file != nil {
			errs = append(errs, m.release(w).Close())
		}
	}
	m.open, m.waiting = nil, nil
	return errors.Join(errs...)
}
