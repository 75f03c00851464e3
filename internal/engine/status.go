package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
)

// Status is the state of one of an engine's reflectors.
type Status struct {
	reflector.Status
	Namespace string // what it lists and watches; "" is all
	Selector  string // "" is everything
}

// member is one reflector and what it is for.
type member struct {
	reflector *reflector.Reflector
	source    source.Source
	namespace string
	selector  string
}

func (m *member) run(ctx context.Context) {
	// A reflector ends only with its context, and that is no news.
	_ = m.reflector.Run(ctx)
	// An idle connection holds two goroutines and its buffers: a stopped informer leaves nothing
	// behind.
	if src, ok := m.source.(interface{ CloseIdleConnections() }); ok {
		src.CloseIdleConnections()
	}
}

func (m *member) status(s reflector.Status) Status {
	return Status{Status: s, Namespace: m.namespace, Selector: m.selector}
}

// what names the member in an error of an engine that has several.
func (m *member) what() string {
	switch {
	case m.namespace != "" && m.selector != "":
		return m.namespace + " " + m.selector
	case m.namespace != "":
		return m.namespace
	}
	return m.selector
}

// Statuses are the states of the reflectors, in the order in which they were added.
func (e *Engine) Statuses() []Status {
	all := make([]Status, len(e.members))
	for i, m := range e.members {
		all[i] = m.status(m.reflector.Status())
	}
	return all
}

// Err is why the engine is not current: nil while it is. It recovers by itself.
func (e *Engine) Err() error {
	var errs []error
	for _, m := range e.members {
		err := m.reflector.Status().Err
		if err == nil {
			continue
		}
		if what := m.what(); what != "" {
			err = fmt.Errorf("%s: %w", what, err)
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", e.cfg.Name, errors.Join(errs...))
}

// WaitForSync blocks until the first list of each reflector is in the store. When ctx ends first,
// the error is ErrNotSynced with the context's error and, where there is one, what has kept the
// engine from it.
func (e *Engine) WaitForSync(ctx context.Context) error {
	return e.explain(ctx, e.store.WaitSynced(ctx), ErrNotSynced)
}

// WaitForResourceVersion blocks until the store holds everything up to a resourceVersion, as a
// write returned it. With several reflectors it blocks until each has come so far: one whose
// namespace or selector is quiet does with its next bookmark, which a kube-apiserver sends about
// once a minute.
func (e *Engine) WaitForResourceVersion(ctx context.Context, rv string) error {
	return e.explain(ctx, e.store.WaitResourceVersion(ctx, rv), fmt.Errorf("not at resourceVersion %s", rv))
}

func (e *Engine) explain(ctx context.Context, err, what error) error {
	if err == nil {
		return nil
	}
	if e.Stopped() && ctx.Err() == nil {
		return fmt.Errorf("%s: %w: %w", e.cfg.Name, what, ErrStopped)
	}
	if why := e.Err(); why != nil {
		return fmt.Errorf("%w: %w: %w", what, err, why)
	}
	return fmt.Errorf("%s: %w: %w", e.cfg.Name, what, err)
}

// WaitFor blocks until cond holds; it is asked anew whenever a reflector's status has changed.
func (e *Engine) WaitFor(ctx context.Context, cond func() bool) error {
	for {
		wake := e.changed.wait()
		if cond() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// broadcast wakes everybody who waits. Its bound is one channel.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{ch: make(chan struct{})} }

// wait gives a channel that is closed at the next fire.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) fire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
