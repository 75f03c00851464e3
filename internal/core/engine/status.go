package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// scoped is a source that may know the namespace and the selector of its requests. known is false
// if the source does not know them.
type scoped interface {
	Scope() (namespace, selector string, known bool)
}

// typed is a source that may know the type of its objects, or only their apiVersion. For objects
// that consist only of metadata, this is the only way to learn their type, because responses do not
// state it.
type typed interface {
	Type() (t wire.TypeMeta, resource string)
}

// member is one reflector with its source. namespace and selector describe what the reflector
// requests.
type member struct {
	reflector *reflector.Reflector
	source    source.Source
	writer    *store.Writer
	namespace string
	selector  string
}

func (m *member) run(ctx context.Context) {
	// A reflector returns only after its context has ended or its writer was closed, so the error
	// contains nothing new.
	_ = m.reflector.Run(ctx)
	// Each idle connection has two goroutines and buffers, which must not outlive the informer.
	if src, ok := m.source.(interface{ CloseIdleConnections() }); ok {
		src.CloseIdleConnections()
	}
}

// status returns s with the resource, namespace and selector of the reflector, and the relists in
// parts of its writer. If the server sent
// only metadata, the ItemType in s is PartialObjectMetadata. status then replaces it by the type
// that the source knows, which may lack the kind.
func (m *member) status(s reflector.Status) reflector.Status {
	s.Namespace, s.Selector, s.RelistsInParts = m.namespace, m.selector, m.writer.InParts()
	if of, ok := m.source.(scoped); ok {
		var known bool
		s.Namespace, s.Selector, known = of.Scope()
		s.ScopeUnknown = !known
	}
	var known wire.TypeMeta
	if of, ok := m.source.(typed); ok {
		known, s.Resource = of.Type()
	}
	if isMetadata(s.ItemType) {
		s.ItemType = known
	}
	return s
}

// isMetadata reports whether t is PartialObjectMetadata, which is not the type of the resource's
// objects.
func isMetadata(t wire.TypeMeta) bool {
	return t.Kind == source.PartialObjectMetadata && strings.HasPrefix(t.APIVersion, metav1.GroupName+"/")
}

// what returns the member's namespace and selector for errors, or "" if it has neither.
func (m *member) what() string {
	return strings.TrimSpace(m.namespace + " " + m.selector)
}

// Statuses returns the statuses of the reflectors, in the order in which Reflect added them.
func (e *Engine) Statuses() []reflector.Status {
	all := make([]reflector.Status, len(e.members))
	for i, m := range e.members {
		all[i] = m.status(m.reflector.Status())
	}
	return all
}

// Transitions returns the most recent transitions of each reflector, in the order of Statuses.
func (e *Engine) Transitions() [][]reflector.Transition {
	all := make([][]reflector.Transition, len(e.members))
	for i, m := range e.members {
		all[i] = m.reflector.Transitions()
	}
	return all
}

// Relists returns how often the reflectors have received a complete state after their first one, by
// reason.
func (e *Engine) Relists() (sum reflector.Relists) {
	for _, m := range e.members {
		for reason, n := range m.reflector.Relists() {
			sum[reason] += n
		}
	}
	return sum
}

// Err returns the reflectors' errors, which say why the engine's store may not be current. It
// returns nil if no reflector has an error. The reflectors retry automatically.
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

// WaitForSync blocks until the store contains the first list of each reflector. If ctx ends first,
// the error wraps ErrNotSynced, the context's error and its cause, and the reflectors' errors if
// there are any. If the engine stops first, the error wraps ErrNotSynced and ErrStopped.
func (e *Engine) WaitForSync(ctx context.Context) error {
	return e.explain(ctx, e.store.WaitSynced(ctx), ErrNotSynced)
}

// WaitForResourceVersion blocks until the store contains all changes up to rv, a resourceVersion
// that a write returned. If the engine has several reflectors, it waits for all of them. A
// reflector whose objects do not change reaches rv with its next bookmark, which kube-apiserver
// sends about once a minute.
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
	err = WithContextError(ctx, err)
	if why := e.Err(); why != nil {
		return fmt.Errorf("%w: %w: %w", what, err, why)
	}
	return fmt.Errorf("%s: %w: %w", e.cfg.Name, what, err)
}

// WithContextError returns err, the error of a wait that may have ended with ctx. If ctx has ended,
// the result also wraps ctx.Err(), because err may be only the cause of ctx, which does not wrap
// ctx.Err().
func WithContextError(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}

// WaitFor blocks until cond returns true. It calls cond again whenever a reflector's status has
// changed. If ctx ends first, it returns the context's error. If the engine stops first, the error
// wraps ErrStopped.
func (e *Engine) WaitFor(ctx context.Context, cond func() bool) error {
	for {
		wake := e.changed.wait()
		if cond() {
			return nil
		}
		if e.Stopped() && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", e.cfg.Name, ErrStopped)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// broadcast wakes all waiting goroutines by closing a channel.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next fire closes.
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
