package delivery

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// Func handles one event. It is called by one goroutine, one event at a time. Its context ends when
// the registration is stopped; a Func that blocks should return then.
type Func func(context.Context, Event)

// Options say how a handler is served. The zero value works: every change, no resync.
type Options struct {
	// Name names the handler in errors and statistics.
	Name string
	// Resync is the period in which the handler is handed every object once more, spread evenly
	// over it. 0 is off.
	Resync time.Duration
	// Phase, in [0, 1), shifts where in the key space the first resync sweep starts, so that
	// several handlers do not sweep the same objects at the same moment.
	Phase float64
	// Filter, if set, is asked about each version of an object; an object that starts to pass is
	// Added, one that stops to is Deleted. It runs on the handler's goroutine and should decode
	// nothing that it need not.
	Filter func(*store.Object) bool
	// ByUID makes every object, by its uid, a story of its own with an end, for handlers that may
	// know the uid of an object that they were not told of. One that was deleted and created again
	// under its key is Deleted (Missed, where no DELETED event told of it) and Added, in place of
	// Updated; one that came and went while the handler was behind is Added and Deleted with its
	// last version. What is kept for a handler that is behind then grows with each object that
	// went, not only with each key: by its last version, and never by more than what changed.
	ByUID bool
	// OnPanic is told of each panic of the handler (or its filter), which then goes on with the
	// next event. It must not block. nil: the panic is only counted.
	OnPanic func(*PanicError)
}

// PanicError is a panic that a handler raised.
type PanicError struct {
	Handler string // Options.Name
	Key     string // of the object whose event was being handled
	Value   any    // what was passed to panic
	Stack   []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("handler %q panicked at %s: %v", e.Handler, e.Key, e.Value)
}

// Unwrap is the value passed to panic where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// batchSize is how many changes are taken from the cursor at a time. It bounds what a registration
// holds of its own.
const batchSize = 128

// Registration is one handler on a store. Make one with [New] and serve it with Run. All methods
// are safe for concurrent use.
type Registration struct {
	store  *store.Store
	cursor *store.Cursor
	handle Func
	opts   Options
	sweep  *sweep

	walk    walk
	now     chan struct{} // of capacity one: a resync was asked for
	synced  chan struct{}
	done    chan struct{}
	handled atomic.Uint64
	panics  atomic.Uint64
	busy    atomic.Int64 // UnixNano since when the handler has been in its present call; 0: it is not in one

	mu    sync.Mutex
	phase phase
	stop  context.CancelFunc // while running
}

type phase uint8

const (
	idle phase = iota
	running
	ended
)

// New registers a handler: from now on nothing is lost for it. Everything that the store holds now
// comes first, as Added events. The registration does nothing until Run is called, and costs the
// store one old version per changed key until Run has returned; so a registration that is never run
// must be Closed.
func New(s *store.Store, handle Func, opts Options) *Registration {
	cursor := s.Cursor
	if opts.ByUID {
		cursor = s.CursorByUID
	}
	return &Registration{
		store:  s,
		cursor: cursor(),
		handle: handle,
		opts:   opts,
		sweep:  newSweep(s, opts.Resync, opts.Phase),
		now:    make(chan struct{}, 1),
		synced: make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// Run serves the handler until the context ends or Close is called, and returns after the handler
// has. The cursor is closed then. A registration runs once: if it runs already, or has run or was
// closed, Run does nothing.
func (r *Registration) Run(ctx context.Context) {
	ctx, ok := r.begin(ctx)
	if !ok {
		return
	}
	defer r.end()
	changes := make([]store.Change, batchSize)
	r.sweep.start(time.Now())
	for ctx.Err() == nil {
		n := r.cursor.Next(changes)
		r.deliverAll(ctx, changes[:n])
		clear(changes[:n]) // an idle handler pins no version
		r.resync(ctx)
		if walking := r.walkOn(ctx); n == 0 && !walking && !r.wait(ctx) {
			return
		}
	}
}

func (r *Registration) begin(ctx context.Context) (context.Context, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != idle {
		return nil, false
	}
	r.phase = running
	ctx, r.stop = context.WithCancel(ctx)
	return ctx, true
}

func (r *Registration) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = ended
	r.stop()
	r.cursor.Close()
	close(r.done)
}

// Close ends the registration: Run returns after the call that the handler may be in, for which
// Close does not wait, or is never going to serve it. Closing again does nothing.
func (r *Registration) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.phase {
	case idle:
		r.phase = ended
		r.cursor.Close()
		close(r.done)
	case running:
		r.stop()
	}
}

// wait blocks until something may be there to do. It reports false when the context has ended.
func (r *Registration) wait(ctx context.Context) bool {
	var tick <-chan time.Time
	if d, ok := r.sweep.next(time.Now()); ok {
		timer := time.NewTimer(d)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.cursor.Ready():
	case <-tick:
	case <-r.now:
		r.walk.begin()
	}
	return true
}

// deliverAll hands the handler a batch of changes, and notes as soon as it has handled what the
// first lists brought.
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

// deliver turns a change of the store into the handler's event, by its filter.
func (r *Registration) deliver(ctx context.Context, c store.Change) {
	e := Event{Old: c.Old, New: c.New, Initial: c.Initial, Coalesced: c.Coalesced, Missed: c.Missed, ResourceVersion: c.ResourceVersion}
	if r.opts.Filter != nil {
		if e.Old != nil && !r.passes(e.Old) {
			e.Old = nil
		}
		if e.New != nil && !r.passes(e.New) {
			e.New = nil
		}
	}
	switch {
	case e.Old == nil && e.New == nil:
		return
	case r.opts.ByUID && e.Old != nil && e.New != nil && !e.Old.SameUID(e.New):
		r.call(ctx, Event{Type: Deleted, Old: e.Old, Coalesced: e.Coalesced, Missed: true})
		if ctx.Err() != nil {
			return
		}
		e.Type, e.Old = Added, nil
	case e.Old == nil:
		e.Type = Added
	case e.New == nil:
		e.Type = Deleted
	default:
		e.Type = Updated
	}
	r.call(ctx, e)
}

// passes asks the filter. A filter that panics refuses the object.
func (r *Registration) passes(o *store.Object) (ok bool) {
	defer r.recover(o.Key())
	return r.opts.Filter(o)
}

func (r *Registration) call(ctx context.Context, e Event) {
	r.busy.Store(time.Now().UnixNano())
	defer r.busy.Store(0)
	defer r.recover(e.Key())
	r.handled.Add(1)
	r.handle(ctx, e)
}

// recover keeps a panic of the handler's from ending anything but the call that raised it.
func (r *Registration) recover(key string) {
	v := recover()
	if v == nil {
		return
	}
	r.panics.Add(1)
	if r.opts.OnPanic != nil {
		r.opts.OnPanic(&PanicError{Handler: r.opts.Name, Key: key, Value: v, Stack: debug.Stack()})
	}
}

// noteSynced closes synced if everything that there is to wait for was handled. unhandled is what
// is left of a batch.
func (r *Registration) noteSynced(unhandled ...store.Change) {
	if !r.HasSynced() && r.cursor.SyncedThrough(unhandled...) {
		close(r.synced)
	}
}

// Synced is closed once the handler has handled everything of the store's first sync: each object
// that was there, in that version or a later one, whatever else keeps coming.
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

// Done is closed when Run has returned, or by Close.
func (r *Registration) Done() <-chan struct{} { return r.done }

// Name is Options.Name.
func (r *Registration) Name() string { return r.opts.Name }

// Stats tell how a handler is doing.
type Stats struct {
	Handled uint64 // events handed to the handler, resyncs included
	Panics  uint64 // events whose handling panicked
	Lag     uint64 // changes in the store that the handler has not seen yet
	Pending int    // keys that are kept for the handler because it fell behind the change log
	// Busy is how long the handler has been in its present call; 0 when it is not in one.
	Busy time.Duration
}

// Stats can be called at any time.
func (r *Registration) Stats() Stats {
	s := Stats{Handled: r.handled.Load(), Panics: r.panics.Load(), Lag: r.cursor.Lag(), Pending: r.cursor.Pending()}
	if since := r.busy.Load(); since != 0 {
		s.Busy = time.Since(time.Unix(0, since))
	}
	return s
}
