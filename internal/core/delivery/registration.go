package delivery

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// Func handles one change. It is called with one event at a time, not always by the same goroutine.
// Its context ends when the registration is stopped; a Func that blocks should then return.
type Func func(context.Context, store.Change)

// Options configure a handler. With the zero value the handler receives every change and no resync.
type Options struct {
	// Name names the handler in errors and statistics.
	Name string
	// Resync is the period of the resync. Once per period the handler receives every object again,
	// evenly distributed over the period. 0 means no resync.
	Resync time.Duration
	// ResyncStart is the position in the key order at which the first resync starts. It is a fraction
	// of all keys, at least 0 and below 1. With different values, several handlers do not resync the
	// same objects at the same time.
	ResyncStart float64
	// Filter, if set, reports whether the handler should see a version of an object. The handler
	// receives Added when the result for an object changes to true, and Deleted when it changes to
	// false. Calls of Filter and of the handler do not overlap. To save CPU time, Filter should not
	// decode objects that it can judge by their metadata.
	Filter func(*store.Object) bool
	// UpdateNamesakes applies if a new object has the name of an old one, and the DELETED event of the
	// old one was missed. If it is true, a handler that keeps up receives one Updated event, like
	// client-go's handlers. If it is false, or if the handler lags, the handler receives a Deleted
	// event and then an Added event.
	UpdateNamesakes bool
	// OnSynced, if set, is called once, after the channel of Synced was closed. It must not block.
	OnSynced func()
	// OnPanic is called for each panic of the handler or its filter; the handler then continues with
	// the next event. OnPanic must not block. If it is nil, panics are only counted.
	OnPanic func(*PanicError)
	// Workers call the handler. The handlers of one store should share them. If Workers is nil, the
	// handler gets separate workers.
	Workers *Workers
}

// PanicError describes a panic of a handler or its filter.
type PanicError struct {
	Handler string // Options.Name
	Key     string // of the object that the handler was handling
	Value   any    // the argument of panic
	Stack   []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("handler %q panicked at %s: %v", e.Handler, e.Key, e.Value)
}

// Unwrap returns Value if it is an error, otherwise nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// batchSize is the maximum number of changes that a worker reads from the cursor at a time, and so
// keeps in memory.
const batchSize = 128

// A turn is the time in which a worker serves one registration before it serves another one. In a
// turn, the registration handles the fraction 1/lagFraction of the changes that it lags behind, but
// at least one batch and at most maxTurn changes.
const (
	lagFraction = 8
	maxTurn     = 16 * batchSize
)

// Registration is one handler of a store. Create one with [New] and serve it with Run. All methods
// are safe for concurrent use.
type Registration struct {
	store  *store.Store
	cursor *store.Cursor
	handle Func
	opts   Options

	state atomic.Uint32 // a serveState
	left  chan struct{} // closed by a worker when ctx has ended and the last call has returned

	// Only the worker that serves the registration uses these fields.
	ctx        context.Context // set by Run
	sweep      *sweep
	fullResync fullResync
	timer      *time.Timer // wakes the registration for the sweep; nil until the sweep waits

	resyncs atomic.Bool // ResyncNow was called
	synced  chan struct{}
	done    chan struct{}
	handled atomic.Uint64
	panics  atomic.Uint64
	calls   calls

	panicked atomic.Pointer[time.Time] // when the last panic was; nil: there was none

	mu    sync.Mutex
	phase phase
	stop  context.CancelFunc // set while running
}

type phase uint8

const (
	idle phase = iota
	running
	ended
)

// New registers a handler. The handler first receives every object in the store, as Added events,
// and then every later change. It is not called before Run. From New until Run returns, the store
// keeps for the handler up to one old version per changed key, and up to 16,384 objects that were
// created and deleted. So the caller must close a registration that it never runs.
func New(s *store.Store, handle Func, opts Options) *Registration {
	opts.Workers = cmp.Or(opts.Workers, &Workers{})
	r := &Registration{
		store:  s,
		handle: handle,
		opts:   opts,
		sweep:  &sweep{store: s, period: max(opts.Resync, 0), start: opts.ResyncStart},
		left:   make(chan struct{}),
		synced: make(chan struct{}),
		done:   make(chan struct{}),
		calls:  calls{base: time.Now()},
	}
	r.cursor = s.NotifyingCursor(opts.Workers, r)
	return r
}

// wake queues the registration, so that a worker checks for events for the handler. It does not
// block.
func (r *Registration) wake() { r.opts.Workers.wake(r) }

// Run serves the handler until the context ends or Close is called. It blocks, and returns after
// the handler's last call has returned. A registration runs only once: if it is running, has run or
// was closed, Run returns immediately.
func (r *Registration) Run(ctx context.Context) {
	ctx, ok := r.begin(ctx)
	if !ok {
		return
	}
	defer r.end()
	r.sweep.at = time.Now()
	r.opts.Workers.join(r)
	<-ctx.Done()
	r.opts.Workers.leave(r)
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (r *Registration) begin(ctx context.Context) (context.Context, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != idle {
		return nil, false
	}
	r.phase = running
	r.ctx, r.stop = context.WithCancel(r.labelled(ctx))
	return r.ctx, true
}

func (r *Registration) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = ended
	r.stop()
	r.closeCursor()
	close(r.done)
}

// closeCursor closes the cursor and drops its unread state, so that a Registration that a caller
// keeps does not keep objects in memory.
func (r *Registration) closeCursor() {
	r.cursor.Close()
	r.cursor.Discard()
}

// Close ends the registration. If Run is running, it returns after the handler's current call, but
// Close does not wait for Run. If Run is called after Close, it returns immediately. Further calls
// of Close are no-ops.
func (r *Registration) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.phase {
	case idle:
		r.phase = ended
		r.closeCursor()
		close(r.done)
	case running:
		r.stop()
	}
}

// serve runs one turn: it delivers available changes, and objects of a resync. It returns true if
// more may be available. If it returns false, the cursor, the timer or ResyncNow later wakes the
// registration.
func (r *Registration) serve(changes []store.Change) (more bool) {
	// The more a handler lags, the more changes it handles per turn. So the handlers of a store stay
	// close to each other in the log, and often find an object that another handler has already
	// decoded.
	left := int(min(r.cursor.Lag()/lagFraction, maxTurn))
	// After the first round, look for changes once more. Usually there are none, but to look is
	// cheaper than to queue the registration again.
	for round := 0; round < 2 || left > 0; round++ {
		if r.ctx.Err() != nil {
			return false
		}
		n := r.cursor.Next(changes)
		r.deliverAll(r.ctx, changes[:n])
		clear(changes[:n]) // an idle worker keeps no version in memory
		r.resync(r.ctx)
		resyncing := r.continueResync(r.ctx)
		if n == 0 && !resyncing {
			r.wakeForSweep()
			return false
		}
		if left -= n; resyncing || n == len(changes) && left <= 0 {
			break
		}
	}
	return true
}

// wakeForSweep sets the timer for the sweep's next object.
func (r *Registration) wakeForSweep() {
	if r.sweep.period == 0 {
		return
	}
	d, ok := r.sweep.next(time.Now())
	switch {
	case !ok:
	case r.timer == nil:
		r.timer = time.AfterFunc(d, r.wake)
	default:
		r.timer.Reset(d)
	}
}

// deliverAll delivers a batch of changes. It closes synced as soon as the handler has handled the
// changes of the first lists.
func (r *Registration) deliverAll(ctx context.Context, changes []store.Change) {
	owed := len(changes) - 1
	for owed >= 0 && !changes[owed].Awaited {
		owed--
	}
	if len(changes) == 0 {
		r.noteSynced()
	}
	for i := 0; i < len(changes) && ctx.Err() == nil; i++ {
		r.deliver(ctx, changes[i])
		if i >= owed {
			r.noteSynced(changes[i+1:]...)
		}
	}
}

// deliver passes a change of the store to the handler.
func (r *Registration) deliver(ctx context.Context, c store.Change) {
	if c.Old != nil && c.New != nil && !r.opts.UpdateNamesakes && !c.Old.SameUID(c.New) {
		r.deliverFiltered(ctx, store.Change{Revision: c.Revision, Old: c.Old, Coalesced: c.Coalesced, Missed: true})
		if ctx.Err() != nil {
			return
		}
		c.Old, c.Initial, c.Coalesced = nil, c.Awaited, false
	}
	r.deliverFiltered(ctx, c)
}

// deliverFiltered removes the versions that the filter rejects from a change, and calls the handler
// if a version remains.
func (r *Registration) deliverFiltered(ctx context.Context, c store.Change) {
	if r.opts.Filter != nil {
		if c.Old != nil && !r.passes(c.Old) {
			c.Old = nil
		}
		if c.New != nil && !r.passes(c.New) {
			c.New, c.Refused = nil, true
		}
	}
	if c.Old != nil || c.New != nil {
		r.call(ctx, c)
	}
}

// passes reports whether the filter accepts the object. It is false if the filter panics.
func (r *Registration) passes(o *store.Object) (ok bool) {
	defer r.recover(o.Key())
	return r.opts.Filter(o)
}

func (r *Registration) call(ctx context.Context, c store.Change) {
	defer r.calls.end(r.calls.begin(&c))
	defer r.recover(c.Key())
	r.handled.Add(1)
	r.handle(ctx, c)
}

// recover recovers from a panic of the handler or its filter, so that only the current call ends.
func (r *Registration) recover(key string) {
	v := recover()
	if v == nil {
		return
	}
	r.panics.Add(1)
	r.panicked.Store(new(time.Now()))
	if r.opts.OnPanic != nil {
		r.opts.OnPanic(&PanicError{Handler: r.opts.Name, Key: key, Value: v, Stack: debug.Stack()})
	}
}

// noteSynced closes synced if the handler has handled all objects that Synced waits for. unhandled
// is the rest of the batch.
func (r *Registration) noteSynced(unhandled ...store.Change) {
	if !r.HasSynced() && r.cursor.SyncedThrough(unhandled...) {
		close(r.synced)
		if r.opts.OnSynced != nil {
			r.opts.OnSynced()
		}
	}
}

// Synced returns a channel that is closed when the handler has handled two sets of objects: the
// objects of the store's first sync, and the objects that were stored when the registration was
// created. The handler may have handled later versions of these objects. Later changes do not delay
// the closing of the channel.
func (r *Registration) Synced() <-chan struct{} { return r.synced }

// HasSynced reports whether Synced is closed.
func (r *Registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when Run returns, or by Close if Run was never called.
func (r *Registration) Done() <-chan struct{} { return r.done }

// Name returns Options.Name.
func (r *Registration) Name() string { return r.opts.Name }
