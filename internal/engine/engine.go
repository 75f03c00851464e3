// Package engine runs what an informer is made of: one store, the reflectors that write it and the
// handlers that are served from it. The typed API and the drop-ins are faces of it.
package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/store"
)

var (
	// ErrStopped: Run was called on an engine that has run, or a handler was added to one.
	ErrStopped = errors.New("informer is stopped")
	// ErrRunning: Run was called twice.
	ErrRunning = errors.New("informer is running already")
	// ErrNotSynced: a wait ended before the engine had synced.
	ErrNotSynced = errors.New("not synced")
	// ErrHandlerStuck: a handler did not return within Config.StopTimeout.
	ErrHandlerStuck = errors.New("handler did not return")
)

// Config of an Engine. The zero value works, but for Store.Decode.
type Config struct {
	Name      string // in errors
	Store     store.Config
	Reflector reflector.Config
	// OnStatus is told of each change of a reflector's status. It must not block. May be nil.
	OnStatus func(Status)
	// StopTimeout bounds the wait for handlers that are in a call when Run ends. 0: 10 s.
	StopTimeout time.Duration
}

// Engine is one store with its reflectors and handlers. All methods are safe for concurrent use.
type Engine struct {
	cfg     Config
	store   *store.Store
	members []*member
	changed *broadcast // fired when a status may have changed

	mu       sync.Mutex
	phase    phase
	run      context.Context // while running
	handlers map[*delivery.Registration]context.CancelFunc
	serial   int // handlers ever registered
}

type phase uint8

const (
	idle phase = iota
	running
	stopped
)

// New makes an engine that does nothing until Run.
func New(cfg Config) *Engine {
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 10 * time.Second
	}
	return &Engine{
		cfg:      cfg,
		store:    store.New(cfg.Store),
		changed:  newBroadcast(),
		handlers: map[*delivery.Registration]context.CancelFunc{},
	}
}

// Store is the engine's store, to read from.
func (e *Engine) Store() *store.Store { return e.store }

// Reflect adds a reflector that fills the part of the store that scope names. It must be called
// before Run.
func (e *Engine) Reflect(src source.Source, scope store.Scope, selector string) {
	m := &member{source: src, namespace: scope.Namespace, selector: selector}
	cfg := e.cfg.Reflector
	told := cfg.OnStatus
	cfg.OnStatus = func(s reflector.Status) {
		if told != nil {
			told(s)
		}
		if e.cfg.OnStatus != nil {
			e.cfg.OnStatus(m.status(s))
		}
		e.changed.fire()
	}
	m.reflector = reflector.New(src, e.store.Writer(scope), cfg)
	e.members = append(e.members, m)
}

// Run lists, watches and serves handlers until ctx ends. It blocks. It returns nil then, or
// ErrHandlerStuck with the names of the handlers that did not return in time; those go on by
// themselves and hold their goroutine until they do.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.begin(ctx); err != nil {
		return err
	}
	var reflectors sync.WaitGroup
	for _, m := range e.members {
		reflectors.Go(func() { m.run(ctx) })
	}
	<-ctx.Done()
	reflectors.Wait()
	err := e.end()
	e.store.Close()
	e.changed.fire()
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

// end waits for the handlers.
func (e *Engine) end() error {
	e.mu.Lock()
	e.phase = stopped
	var waiting []*delivery.Registration
	for r := range e.handlers {
		r.Close() // somebody else may be running it
		waiting = append(waiting, r)
	}
	e.mu.Unlock()

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
			timeout.Reset(0) // the others have had their time too
			stuck = append(stuck, r.Name())
		}
	}
	if stuck != nil {
		return fmt.Errorf("%s: %w: %s", e.cfg.Name, ErrHandlerStuck, strings.Join(stuck, ", "))
	}
	return nil
}

// Handle registers a handler: before, during or after the first sync. It is served from when the
// engine runs until it is removed or the engine stops.
func (e *Engine) Handle(fn delivery.Func, opts delivery.Options) (*delivery.Registration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.phase == stopped {
		return nil, fmt.Errorf("%s: %w", e.cfg.Name, ErrStopped)
	}
	e.serial++
	if opts.Name == "" {
		opts.Name = fmt.Sprintf("%s handler %d", e.cfg.Name, e.serial)
	}
	// Multiples of the golden ratio lie as far from each other as they can, however many there come
	// to be.
	const golden = 0.6180339887498949
	shift := golden * float64(e.serial-1)
	opts.Phase = shift - float64(int(shift))
	r := delivery.New(e.store, fn, opts)
	e.handlers[r] = nil
	if e.phase == running {
		e.serve(r)
	}
	return r, nil
}

// serve starts a handler's goroutine, which ends with the engine's context or by Remove. The lock
// is held.
func (e *Engine) serve(r *delivery.Registration) {
	ctx, cancel := context.WithCancel(e.run)
	e.handlers[r] = cancel
	go func() {
		defer cancel()
		r.Run(ctx)
	}()
}

// Remove ends a handler: its context ends, and it is called no more after the call that it may be
// in. It does not wait for that; Registration.Done tells.
func (e *Engine) Remove(r *delivery.Registration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cancel, ok := e.handlers[r]
	if !ok {
		return
	}
	delete(e.handlers, r)
	if r.Close(); cancel != nil {
		cancel()
	}
}

// Handlers are the registered ones, in no order.
func (e *Engine) Handlers() []*delivery.Registration {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*delivery.Registration, 0, len(e.handlers))
	for r := range e.handlers {
		all = append(all, r)
	}
	return all
}

// Stopped reports whether Run has returned or is about to.
func (e *Engine) Stopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.phase == stopped
}
