package delivery

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/store"
)

// Func handles one event. It is called by one goroutine, one event at a time. Its context ends when the registration is
// stopped; a Func that blocks should return then.
type Func func(context.Context, Event)

// Options say how a handler is served. The zero value works: every change, no resync.
type Options struct {
	// Name names the handler in errors and statistics.
	Name string
	// Resync is the period in which the handler is handed every object once more, spread evenly over it. 0 is off.
	Resync time.Duration
	// Phase, in [0, 1), shifts where in the key space the first resync sweep starts, so that several handlers do not
	// sweep the same objects at the same moment.
	Phase float64
	// Filter, if set, is asked about each version of an object; an object that starts to pass is Added, one that
	// stops to is Deleted. It runs on the handler's goroutine and should decode nothing that it need not.
	Filter func(*store.Object) bool
	// OnPanic is told of each panic of the handler (or its filter), which then goes on with the next event. It must
	// not block. nil: the panic is only counted.
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

// batchSize is how many changes are taken from the cursor at a time. It bounds what a registration holds of its own.
const batchSize = 128

// Registration is one handler on a store. Make one with [New] and serve it with Run. All methods are safe for concurrent
// use.
type Registration struct {
	store  *store.Store
	cursor *store.Cursor
	handle Func
	opts   Options
	sweep  *sweep

	now     chan struct{} // of capacity one: a resync was asked for
	synced  chan struct{}
	done    chan struct{}
	handled atomic.Uint64
	panics  atomic.Uint64
	busy    atomic.Int64 // UnixNano since when the handler has been in its present call; 0: it is not in one
}

// New registers a handler: from now on nothing is lost for it. Everything that the store holds now comes first, as
// Added events. The registration does nothing until Run is called, and costs the store one old version per changed key
// until Run has returned; so a registration that is never run must be Closed.
func New(s *store.Store, handle Func, opts Options) *Registration {
	return &Registration{
		store:  s,
		cursor: s.Cursor(),
		handle: handle,
		opts:   opts,
		sweep:  newSweep(s, opts.Resync, opts.Phase),
		now:    make(chan struct{}, 1),
		synced: make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// Run serves the handler until the context ends, and returns after the handler has. It must be called once. The cursor
// is closed when it returns.
func (r *Registration) Run(ctx context.Context) {
	defer close(r.done)
	defer r.cursor.Close()
	changes := make([]store.Change, batchSize)
	r.sweep.start(time.Now())
	for ctx.Err() == nil {
		n := r.cursor.Next(changes)
		for i := 0; i < n && ctx.Err() == nil; i++ {
			r.deliver(ctx, changes[i])
		}
		clear(changes[:n]) // an idle handler pins no version
		if n == 0 {
			r.noteSynced()
		}
		r.resync(ctx)
		if n == 0 && !r.wait(ctx) {
			return
		}
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
		for o := range r.store.Snapshot().All() {
			if ctx.Err() != nil {
				return false
			}
			r.resynced(ctx, o)
		}
	}
	return true
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

// resync hands the handler what the sweep is due to.
func (r *Registration) resync(ctx context.Context) {
	for o := range r.sweep.due(time.Now()) {
		if ctx.Err() != nil {
			return
		}
		r.resynced(ctx, o)
	}
}

// resynced hands the handler an object once more. One that is newer than what the handler has seen is left out: its change
// is about to come, and a handler must not see the change after the version.
func (r *Registration) resynced(ctx context.Context, o *store.Object) {
	if o.Revision() > r.cursor.Revision() || r.opts.Filter != nil && !r.passes(o) {
		return
	}
	r.call(ctx, Event{Type: Resynced, Old: o, New: o})
}

// ResyncNow asks for every object once more, without delay, as soon as the handler has caught up with the changes. It does not
// wait. What is asked for twice before then is done once. Objects that go meanwhile may still be handed out.
func (r *Registration) ResyncNow() {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

func (r *Registration) noteSynced() {
	select {
	case <-r.synced:
	default:
		if r.cursor.SyncedThrough() {
			close(r.synced)
		}
	}
}

// Close ends a registration that is never going to be run, and frees what it costs. It must be called once, and not after
// Run.
func (r *Registration) Close() {
	r.cursor.Close()
	close(r.done)
}

// Synced is closed once the handler has handled everything of the store's first sync.
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
