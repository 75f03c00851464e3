package watchcache

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// writeDeadline bounds each write to a client, so that a client that takes nothing does not hold a
// goroutine for ever. A write only records its start; one timer checks all of them. A
// ResponseWriter without deadlines, as in tests, is not bounded.
type writeDeadline struct {
	set     *writeDeadlines
	control *http.ResponseController
	started atomic.Int64 // start of the current write, as since has it; 0: none
	source  atomic.Pointer[changeSource]
	// catchUp has the changes that a watcher has taken from source to be caught up. nil: none.
	catchUp atomic.Pointer[changeQueue]
	// sending is when the watcher began to send, and has not caught up since, as since has it. 0: it
	// has caught up.
	sending atomic.Int64
	shed    atomic.Bool // the watcher is to end before its next event
	// state is what a selective watcher begins with. Others' sources count what that keeps. nil:
	// nothing, or all of it has been sent.
	state atomic.Pointer[store.Snapshot]

	stateWaited atomic.Int64 // nanoseconds that writes of it have taken: what they wait for the client
	stateSent   atomic.Int64 // bytes of it that have been written
	stateRate   atomic.Int64 // bytes a second that the client must take of it; 0: no state is sent

	mu          sync.Mutex
	cutWrite    int64 // start of the write that was ended last
	hasDeadline bool  // there is a deadline
	closed      bool  // the writer must not be used any more: net/http's for HTTP/2 panics
}

const (
	// closeGrace bounds a write after the cache was closed, drainGrace one after a drain. A host is
	// slow when all clients of a replica move to it, and a client that is cut off has to list
	// again.
	closeGrace = time.Second
	drainGrace = 10 * time.Second
	// A state, of a LIST or at the beginning of a WATCH, keeps a snapshot, and a LIST a seat, until it
	// has been sent. So it is, at any time, no more than stateGrace behind a client that takes
	// listRate or initialRate bytes a second. kube-apiserver ends a LIST after that grace, however
	// large it is. A WATCH that is ended begins with the whole state again, so it is given longer.
	stateGrace  = time.Minute
	listRate    = 256 << 10
	initialRate = 32 << 10
	// checksPerTimeout is how often a write is checked within its timeout.
	checksPerTimeout = 8
)

// writeDeadlines holds the deadlines of the bodies being written. A timer runs while there are any.
// It is not stopped between writes, because that would cost more than checking in vain. It is safe
// for concurrent use.
type writeDeadlines struct {
	timeout time.Duration
	stalled *atomic.Uint64 // counts writes that timed out

	grace atomic.Int64 // timeout of writes after close, in nanoseconds; 0: not closed

	mu     sync.Mutex
	active map[*writeDeadline]struct{} // one for each request
	timer  *time.Timer                 // nil: not running
}

// begun is when the program began. Times are counted from it, so that nothing follows the system's
// clock when that is set.
var begun = time.Now()

// since returns the nanoseconds from the program's begin to a time.
func since(t time.Time) int64 { return int64(t.Sub(begun)) }

func (ds *writeDeadlines) start(w http.ResponseWriter) *writeDeadline {
	wd := &writeDeadline{set: ds, control: http.NewResponseController(w)}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.active == nil {
		ds.active = map[*writeDeadline]struct{}{}
	}
	ds.active[wd] = struct{}{}
	if ds.timer == nil {
		ds.timer = time.AfterFunc(ds.timeout/checksPerTimeout, ds.check)
	}
	return wd
}

// bound bounds the time that write may take to write n bytes to w, as that of a LIST of them.
func (ds *writeDeadlines) bound(w http.ResponseWriter, n int, write func()) {
	wd := ds.start(w)
	defer wd.close()
	wd.beginState(listRate)
	wd.wrote(n)
	if wd.begin() == nil { // it has not waited yet, so it is not late
		write()
	}
	wd.done()
}

// check ends the writes that have timed out, and those of a state that is late.
func (ds *writeDeadlines) check() {
	now := time.Now()
	timedOut := since(now.Add(-ds.timeout))
	for _, w := range ds.startedBefore(now) {
		if (w.start <= timedOut || w.isLate(now)) && w.cut() {
			ds.stalled.Add(1)
		}
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.timer = nil; len(ds.active) > 0 {
		ds.timer = time.AfterFunc(ds.timeout/checksPerTimeout, ds.check)
	}
}

// pendingWrite is a write that was under way when it was looked for. It may have ended since.
type pendingWrite struct {
	*writeDeadline
	start int64 // as since has it
}

// startedBefore returns the writes under way that started before then.
func (ds *writeDeadlines) startedBefore(then time.Time) []pendingWrite {
	return ds.before(then, func(wd *writeDeadline) int64 { return wd.started.Load() })
}

// before returns those of which a time, as since has it, is set and before then.
func (ds *writeDeadlines) before(then time.Time, at func(*writeDeadline) int64) (out []pendingWrite) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for wd := range ds.active {
		if start := at(wd); start != 0 && start <= since(then) {
			out = append(out, pendingWrite{wd, start})
		}
	}
	return out
}

// cut ends the write, and with it the request. It returns false if the write has ended by itself:
// then the client has taken everything, and a deadline would fail the next write. It does so too if
// the write was cut before: over HTTP/2 it goes on while nothing can be sent on the connection.
func (w pendingWrite) cut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started.Load() != w.start || w.cutWrite == w.start || !w.setDeadlineLocked(time.Now().Add(-time.Second)) {
		return false
	}
	w.cutWrite = w.start
	return true
}

// beginSending notes that a watcher sends, endSending that it has caught up.
func (wd *writeDeadline) beginSending() { wd.sending.CompareAndSwap(0, since(time.Now())) }
func (wd *writeDeadline) endSending()   { wd.sending.Store(0) }

// close shortens the timeout of current and later writes to grace.
func (ds *writeDeadlines) close(grace time.Duration) {
	if had := ds.grace.Load(); had == 0 || int64(grace) < had {
		ds.grace.Store(int64(grace))
	}
	ds.mu.Lock()
	ds.stopIdleTimer()
	ds.mu.Unlock()
	for _, w := range ds.startedBefore(time.Now()) {
		w.setDeadline(time.Now().Add(grace))
	}
}

// stopIdleTimer stops the timer if nothing is being written after close. The caller holds the lock.
func (ds *writeDeadlines) stopIdleTimer() {
	if ds.grace.Load() != 0 && len(ds.active) == 0 && ds.timer != nil && ds.timer.Stop() {
		ds.timer = nil
	}
}

// setDeadline sets the deadline. It returns false if the request has ended.
func (wd *writeDeadline) setDeadline(deadline time.Time) bool {
	wd.mu.Lock()
	defer wd.mu.Unlock()
	return wd.setDeadlineLocked(deadline)
}

// setDeadlineLocked is setDeadline for a caller that holds the lock.
func (wd *writeDeadline) setDeadlineLocked(deadline time.Time) bool {
	if wd.closed {
		return false
	}
	wd.hasDeadline = true
	_ = wd.control.SetWriteDeadline(deadline)
	return true
}

// errTooSlow ends an answer whose client takes a state too slowly.
var errTooSlow = errors.New("watchcache: the client takes the state too slowly")

// beginState begins to bound the time for which the writes of a state wait, until endState. The
// client must take rate bytes a second. What is computed between writes is no fault of the client.
func (wd *writeDeadline) beginState(rate int64) {
	wd.stateSent.Store(0)
	wd.stateWaited.Store(0)
	wd.stateRate.Store(rate)
}

func (wd *writeDeadline) endState() {
	wd.stateRate.Store(0)
	wd.state.Store(nil)
}

// isLate reports whether a state is being sent, and the client is too slow.
func (wd *writeDeadline) isLate(now time.Time) bool {
	rate := wd.stateRate.Load()
	if rate == 0 {
		return false
	}
	waited := wd.stateWaited.Load()
	if start := wd.started.Load(); start != 0 {
		waited += since(now) - start
	}
	due := stateGrace + time.Duration(float64(wd.stateSent.Load())/float64(rate)*float64(time.Second))
	return time.Duration(waited) > due
}

// begin records the start of a write. The error is errTooSlow.
func (wd *writeDeadline) begin() error {
	now := time.Now()
	if wd.isLate(now) {
		wd.set.stalled.Add(1)
		return errTooSlow
	}
	wd.started.Store(since(now))
	if grace := wd.set.grace.Load(); grace != 0 {
		wd.setDeadline(now.Add(time.Duration(grace)))
	}
	return nil
}

// wrote counts what has been written.
func (wd *writeDeadline) wrote(n int) { wd.stateSent.Add(int64(n)) }

// done records the end of a write.
func (wd *writeDeadline) done() {
	if start := wd.started.Swap(0); start != 0 && wd.stateRate.Load() != 0 {
		wd.stateWaited.Add(since(time.Now()) - start)
	}
}

// during bounds the time that write may take. The error is errTooSlow, without a write, or write's.
func (wd *writeDeadline) during(write func() error) error {
	err := wd.begin()
	if err == nil {
		err = write()
		wd.done()
	}
	return err
}

// close ends the deadline with its request. A later request on the connection has its own.
func (wd *writeDeadline) close() {
	wd.set.mu.Lock()
	delete(wd.set.active, wd)
	wd.set.stopIdleTimer()
	wd.set.mu.Unlock()
	wd.mu.Lock()
	defer wd.mu.Unlock()
	wd.closed = true
	if wd.hasDeadline {
		_ = wd.control.SetWriteDeadline(time.Time{})
	}
}
