package watchcache

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// writeDeadline bounds each write to a client, so that a client that reads nothing does not block a
// goroutine forever. A write only records its start; one timer checks all writes. The writes of a
// ResponseWriter without deadlines, as in tests, are not bounded.
type writeDeadline struct {
	set     *writeDeadlines
	control *http.ResponseController
	started atomic.Int64 // start of the current write, as returned by since; 0: none
	source  atomic.Pointer[changeSource]
	// catchUp contains the changes with which the watcher is being caught up; it has taken them from
	// source. nil: none.
	catchUp atomic.Pointer[changeQueue]
	// sending is the time, as returned by since, from which the watcher has been sending without
	// catching up. 0: the watcher has caught up.
	sending atomic.Int64
	shed    atomic.Bool // the watcher must end before its next event
	// state is the snapshot that a selective watcher is sending. For other watchers, source counts the
	// memory that the snapshot retains. nil: the watcher has sent all of it, or starts without a
	// state.
	state atomic.Pointer[store.Snapshot]

	stateWaited atomic.Int64 // nanoseconds that writes of the state have waited for the client
	stateSent   atomic.Int64 // bytes of the state that were written
	stateRate   atomic.Int64 // bytes per second that the client must read; 0: no state is being sent

	cutWrite atomic.Int64 // start of the last write that the method cut has ended

	mu          sync.Mutex
	hasDeadline bool // a deadline is set
	closed      bool // the request has ended: net/http's HTTP/2 writer would panic
}

const (
	// After the cache was closed, a write may last closeGrace. After a drain, a write may last
	// drainGrace. drainGrace is longer, because hosts are slow while all clients of a replica move to
	// another replica. A client that is cut off must list again.
	closeGrace = time.Second
	drainGrace = 10 * time.Second
	// While a LIST, or the start of a WATCH, sends a state, the request retains a snapshot. A LIST
	// also occupies a seat, which is the permission to be served. So the time that writes wait for the
	// client is limited to stateGrace plus a time that depends on the sent bytes. A LIST may need one
	// second for each listRate bytes, and a WATCH one second for each initialRate bytes.
	// kube-apiserver ends any LIST after one minute. initialRate is lower, because a WATCH that is
	// ended must send the whole state again.
	stateGrace  = time.Minute
	listRate    = 256 << 10
	initialRate = 32 << 10
	// checksPerTimeout is how often a write is checked within its timeout.
	checksPerTimeout = 8
)

// writeDeadlines contains the deadlines of the bodies that are being written. A timer runs while
// there are any. It keeps running between writes, because stopping it would cost more than its
// checks. It is safe for concurrent use.
type writeDeadlines struct {
	timeout time.Duration
	stalled *atomic.Uint64 // counts writes that timed out

	grace atomic.Int64 // timeout of writes after close, in nanoseconds; 0: not closed

	mu     sync.Mutex
	active map[*writeDeadline]struct{} // one for each request
	timer  *time.Timer                 // nil: not running
}

// begun is the start of the program. Times are relative to it, so that a change of the system's
// clock does not affect them.
var begun = time.Now()

// since returns the nanoseconds from the start of the program to t.
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

// check ends each write that has timed out, or that sends a state to a client that reads too
// slowly.
func (ds *writeDeadlines) check() {
	now := time.Now()
	timedOut := since(now.Add(-ds.timeout))
	for _, w := range ds.before(now, (*writeDeadline).writingSince) {
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

// pendingWrite is a write that was in progress when it was found. It may have ended since.
type pendingWrite struct {
	*writeDeadline
	start int64 // as returned by since
}

// before calls the function at with each active deadline. It returns the deadlines for which the
// result of at is a time up to the argument then. at returns times as since does; 0 means that the
// deadline has no such time, and before omits it.
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

// cut ends the write, and with it the request. It returns false if the write has already ended: the
// client has then read everything, and a deadline would fail the next write. It also returns false
// if the write was cut before, because over HTTP/2 a write that was cut continues while the
// connection accepts nothing.
func (w pendingWrite) cut() bool {
	return w.started.Load() == w.start && w.cutWrite.Swap(w.start) != w.start && w.setDeadline(time.Now().Add(-time.Second))
}

// mark makes the watcher end before its next event. It returns false if the watcher is marked
// already.
func (w pendingWrite) mark() bool { return w.shed.CompareAndSwap(false, true) }

// writingSince and sendingSince return the values of started and sending.
func (wd *writeDeadline) writingSince() int64 { return wd.started.Load() }
func (wd *writeDeadline) sendingSince() int64 { return wd.sending.Load() }

// beginSending records that a watcher sends changes. endSending records that it has caught up.
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
	for _, w := range ds.before(time.Now(), (*writeDeadline).writingSince) {
		w.setDeadline(time.Now().Add(grace))
	}
}

// stopIdleTimer stops the timer after close if no body is being written. The caller holds ds.mu.
func (ds *writeDeadlines) stopIdleTimer() {
	if ds.grace.Load() != 0 && len(ds.active) == 0 && ds.timer != nil && ds.timer.Stop() {
		ds.timer = nil
	}
}

// setDeadline sets the deadline of the current write. It returns false if the request has ended.
func (wd *writeDeadline) setDeadline(deadline time.Time) bool {
	wd.mu.Lock()
	defer wd.mu.Unlock()
	if wd.closed {
		return false
	}
	wd.hasDeadline = true
	_ = wd.control.SetWriteDeadline(deadline)
	return true
}

// errTooSlow ends a response whose client reads a state too slowly.
var errTooSlow = errors.New("watchcache: the client reads the state too slowly")

// beginState limits the time that the writes of a state wait for the client, from now until
// endState. The client must read rate bytes per second. The time between writes does not count.
func (wd *writeDeadline) beginState(rate int64) {
	wd.stateSent.Store(0)
	wd.stateWaited.Store(0)
	wd.stateRate.Store(rate)
}

func (wd *writeDeadline) endState() {
	wd.stateRate.Store(0)
	wd.state.Store(nil)
}

// isLate reports whether a state is being sent and the client reads it too slowly.
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

// begin records the start of a write. If the client is too slow, begin returns errTooSlow and
// records nothing.
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

// wrote counts n written bytes.
func (wd *writeDeadline) wrote(n int) { wd.stateSent.Add(int64(n)) }

// done records the end of a write.
func (wd *writeDeadline) done() {
	if start := wd.started.Swap(0); start != 0 && wd.stateRate.Load() != 0 {
		wd.stateWaited.Add(since(time.Now()) - start)
	}
}

// during calls write and bounds its time. If the client is already too slow, it returns errTooSlow
// and does not call write. Otherwise it returns write's error.
func (wd *writeDeadline) during(write func() error) error {
	err := wd.begin()
	if err == nil {
		err = write()
		wd.done()
	}
	return err
}

// close removes the deadline when its request ends. A later request on the connection gets another
// writeDeadline.
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
