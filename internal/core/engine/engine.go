// Package engine runs the parts of an informer: one store, the reflectors that write to it, and the
// handlers that receive its changes. The typed API and the drop-in packages use it.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

var (
	// ErrStopped is returned by Run if the engine has already run, and by Handle if the engine has
	// stopped.
	ErrStopped = errors.New("informer is stopped")
	// ErrRunning is returned by Run while another Run of the engine has not returned.
	ErrRunning = errors.New("informer is already running")
	// ErrNotSynced is wrapped by the error of WaitForSync if the wait ends before the engine has
	// synced.
	ErrNotSynced = errors.New("not synced")
	// ErrHandlerStuck is wrapped by the error of Run if a handler did not return within
	// Config.StopTimeout.
	ErrHandlerStuck = errors.New("handler did not return")
)

// Config configures an Engine. Only Store.Decode must be set; the other fields have defaults.
type Config struct {
	Name  string // used in errors
	Store store.Config
	// Reflector is the configuration of all reflectors of the engine. If its Server is nil, the
	// reflectors share a new one.
	Reflector reflector.Config
	// Sink returns the sink to which a reflector writes. Its argument is the store's Writer for that
	// reflector, which the sink usually wraps. If Sink is nil, each reflector writes directly to its
	// Writer.
	Sink func(*store.Writer) reflector.Sink
	// Requests counts the requests of the engine's sources. It may be nil.
	Requests *source.Stats
	// Comparison counts what a comparison with a shadow has found. It is nil without a shadow.
	Comparison *Comparison
	// OnStatus receives what the reflectors pass to the OnStatus of their Config. It must not block.
	// It may be nil.
	OnStatus func(reflector.Status)
	// Background runs on a separate goroutine while the engine runs. When its context ends, it must
	// return, because Run waits for it. It may be nil.
	Background func(context.Context)
	// StopTimeout limits how long Run waits for running handlers after its context has ended. The
	// default is 10 s.
	StopTimeout time.Duration
}

// Engine is one store with its reflectors and handlers. All methods are safe for concurrent use.
type Engine struct {
	cfg     Config
	store   *store.Store
	workers delivery.Workers // the worker goroutines that call the handlers
	members []*member
	changed *broadcast // wakes WaitFor after each change of a status, and when the engine has stopped

	mu       sync.Mutex
	phase    phase
	run      context.Context // the context of Run; nil before Run
	handlers map[*delivery.Registration]context.CancelFunc
	removed  removals
	serial   int // the number of handlers that were ever registered
	// unnamed contains the handlers without a name. The handler with number n is at index n-1. nil
	// means that the number is free.
	unnamed []*delivery.Registration
}

// Comparison counts what the comparison of an informer with a shadow has found; see
// clientgo.Options.Shadow. It is the evidence of the comparison's verdict.
type Comparison struct {
	Objects atomic.Int64 // versions whose content was compared
	Events  atomic.Int64 // versions and deletions that handlers of both informers received
	// OnlyWeir and OnlyClientGo count versions that only one handler received, because the other
	// skipped them.
	OnlyWeir, OnlyClientGo atomic.Int64
	Unjudged               atomic.Int64 // versions that could not be compared
	Differences            atomic.Int64
}

func (c *Comparison) String() string {
	return fmt.Sprintf("%d differences; compared the content of %d versions and the order of %d events; not comparable: %d versions that only weir delivered, %d that only client-go delivered, %d others",
		c.Differences.Load(), c.Objects.Load(), c.Events.Load(), c.OnlyWeir.Load(), c.OnlyClientGo.Load(), c.Unjudged.Load())
}

// Comparison returns Config.Comparison.
func (e *Engine) Comparison() *Comparison { return e.cfg.Comparison }

// engines contains the running engines of this process, by Config.Name. An engine is registered
// from the start to the end of its Run.
var engines registry.Registry[*Engine]

// Running returns the running engines of this process, ordered by name. It does not block, and is
// safe for concurrent use.
func Running() []registry.Named[*Engine] { return engines.All() }

type phase uint8

const (
	idle phase = iota
	running
	stopped
)

// New returns an engine. It starts no goroutine and sends no request; Run does.
func New(cfg Config) *Engine {
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, 10*time.Second)
	cfg.Reflector.Server = cmp.Or(cfg.Reflector.Server, &reflector.Server{})
	return &Engine{
		cfg:      cfg,
		store:    store.New(cfg.Store),
		changed:  &broadcast{ch: make(chan struct{})},
		handlers: map[*delivery.Registration]context.CancelFunc{},
		removed:  removals{map[*delivery.Registration]struct{}{}, map[string]Totals{}},
	}
}

// Store returns the engine's store. Callers must only read it.
func (e *Engine) Store() *store.Store { return e.store }

// Requests returns Config.Requests.
func (e *Engine) Requests() *source.Stats { return e.cfg.Requests }

// Reflect adds a reflector that reads src and writes the part of the store that scope describes.
// labels and fields are the selectors of its objects, or "". Reflect must be called before Run, and
// not concurrently with other methods.
func (e *Engine) Reflect(src source.Source, scope store.Scope, labels, fields string) {
	m := &member{source: src, namespace: scope.Namespace, selector: strings.TrimSpace(labels + " " + fields)}
	cfg := e.cfg.Reflector
	cfg.Query.LabelSelector, cfg.Query.FieldSelector = labels, fields
	onStatus := cfg.OnStatus
	cfg.OnStatus = func(s reflector.Status) {
		if onStatus != nil {
			onStatus(s)
		}
		if e.cfg.OnStatus != nil {
			e.cfg.OnStatus(m.status(s))
		}
		e.changed.fire()
	}
	m.writer = e.store.Writer(scope)
	var sink reflector.Sink = m.writer
	if e.cfg.Sink != nil {
		sink = e.cfg.Sink(m.writer)
	}
	m.reflector = reflector.New(src, sink, cfg)
	e.members = append(e.members, m)
}

// SetShard restricts all reflectors to a shard; see reflector.Config.SetShard. It must be called
// before Run, and not concurrently with other methods.
func (e *Engine) SetShard(selector string, keep func(*wire.Meta) bool) {
	for _, m := range e.members {
		m.reflector.SetShard(selector, keep)
	}
}

// Run runs the reflectors and calls the handlers. It blocks until ctx ends and then returns nil. If
// handlers do not return in time, the error wraps ErrHandlerStuck and names these handlers; their
// goroutines end when they return. Run also returns an error if the engine runs already or has run.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer engines.Add(e.cfg.Name, e)()
	var working sync.WaitGroup
	for _, m := range e.members {
		working.Go(func() { m.run(ctx) })
	}
	if e.cfg.Background != nil {
		working.Go(func() { e.cfg.Background(ctx) })
	}
	<-ctx.Done()
	working.Wait()
	err := e.end()
	e.store.Close()
	return err
}

func (e *Engine) begin(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.phase {
	case running:
		return fmt.Errorf("%s: %w", e.cfg.Name, ErrRunning)
	case stopped:
		return fmt.Errorf("%s: %w", e.cfg.Name, ErrStopped)
	}
	e.phase, e.run = running, ctx
	for r := range e.handlers {
		e.serve(r)
	}
	return nil
}

// end closes the handlers and waits until they have returned, at most StopTimeout in total.
func (e *Engine) end() error {
	e.mu.Lock()
	e.phase = stopped
	var waiting []*delivery.Registration
	for r := range e.handlers {
		r.Close() // ends the handler; the goroutine of serve may be in r.Run
		waiting = append(waiting, r)
	}
	e.mu.Unlock()
	e.changed.fire()

	timeout := time.NewTimer(e.cfg.StopTimeout)
	defer timeout.Stop()
	var stuck []string
	for _, r := range waiting {
		select {
		case <-r.Done():
			continue
		default:
		}
		select {
		case <-r.Done():
		case <-timeout.C:
			timeout.Reset(0) // for the other handlers, StopTimeout has also passed
			stuck = append(stuck, r.Name())
		}
	}
	if stuck != nil {
		return fmt.Errorf("%s: %w: %s", e.cfg.Name, ErrHandlerStuck, strings.Join(stuck, ", "))
	}
	return nil
}

// Handle registers a handler. It may be called before, during or after the first sync. While the
// engine runs, the handler receives events until Remove. A handler without a name gets a name with
// the lowest free number, so that an engine whose handlers are often added and removed uses few
// names. If the engine has stopped, the error wraps ErrStopped.
func (e *Engine) Handle(fn delivery.Func, opts delivery.Options) (*delivery.Registration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase == stopped {
		return nil, fmt.Errorf("%s: %w", e.cfg.Name, ErrStopped)
	}
	e.serial++
	number := -1
	if opts.Name == "" {
		if number = slices.Index(e.unnamed, nil); number < 0 {
			number, e.unnamed = len(e.unnamed), append(e.unnamed, nil)
		}
		opts.Name = fmt.Sprintf("%s handler %d", e.cfg.Name, number+1)
	}
	// For any number of handlers, the fractional parts of multiples of the golden ratio are evenly
	// distributed between 0 and 1. So the handlers do not resync at the same time.
	const golden = 0.6180339887498949
	shift := golden * float64(e.serial-1)
	opts.ResyncStart = shift - float64(int(shift))
	opts.Workers = &e.workers
	r := delivery.New(e.store, fn, opts)
	e.handlers[r] = nil
	if number >= 0 {
		e.unnamed[number] = r
	}
	if e.phase == running {
		e.serve(r)
	}
	return r, nil
}

// serve starts a goroutine that serves a handler until the engine's context ends or Remove is
// called. The caller must hold e.mu.
func (e *Engine) serve(r *delivery.Registration) {
	ctx, cancel := context.WithCancel(e.run)
	e.handlers[r] = cancel
	go func() {
		defer cancel()
		r.Run(ctx)
		e.noteLeft(r)
	}()
}

// Remove ends a handler: its context ends, and it is not called again. A running call may continue
// after Remove has returned. The channel of Registration.Done is closed when that call has
// returned. Remove of a handler that is not registered is a no-op.
func (e *Engine) Remove(r *delivery.Registration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cancel, ok := e.handlers[r]
	if !ok {
		return
	}
	delete(e.handlers, r)
	if number := slices.Index(e.unnamed, r); number >= 0 {
		e.unnamed[number] = nil
	}
	if r.Close(); cancel != nil {
		e.noteRemoved(r)
		cancel()
	}
}

// Handlers returns the registered handlers, in no order.
func (e *Engine) Handlers() []*delivery.Registration {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*delivery.Registration, 0, len(e.handlers))
	for r := range e.handlers {
		all = append(all, r)
	}
	return all
}

// Stopped reports whether Run's context has ended and the reflectors have returned. Run may still
// wait for handlers.
func (e *Engine) Stopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.phase == stopped
}
