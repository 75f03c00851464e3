package engine

import (
	"time"

	"github.com/weirproject/weir/internal/core/delivery"
)

// HandlerGroup contains all handlers with the same name. When one of them is removed, the sum of
// their totals does not decrease, except when the last handler of the name is removed.
type HandlerGroup struct {
	Handlers []*delivery.Registration // the registered handlers; at least one
	Leaving  []*delivery.Registration // the removed handlers whose last call may not have returned
	Left     Totals                   // the sum over the removed handlers that have returned
}

// Totals are sums of the counts of handlers.
type Totals struct {
	Handled uint64 // calls, including those for resyncs
	Panics  uint64
	Spent   time.Duration // total duration of the calls
}

// TotalsOf returns the totals of one handler's counts.
func TotalsOf(s delivery.Stats) Totals { return Totals{s.Handled, s.Panics, s.Spent} }

// Plus returns the sum of t and u.
func (t Totals) Plus(u Totals) Totals {
	return Totals{t.Handled + u.Handled, t.Panics + u.Panics, t.Spent + u.Spent}
}

// removals records handlers that were removed while another handler with the same name was
// registered. left contains only names of registered handlers.
type removals struct {
	leaving map[*delivery.Registration]struct{}
	left    map[string]Totals // of the handlers that have returned, by name
}

// HandlerGroups returns the registered handlers, grouped by name, with the totals of removed
// handlers.
func (e *Engine) HandlerGroups() map[string]HandlerGroup {
	e.mu.Lock()
	defer e.mu.Unlock()
	groups := map[string]HandlerGroup{}
	for r := range e.handlers {
		g := groups[r.Name()]
		g.Handlers, g.Left = append(g.Handlers, r), e.removed.left[r.Name()]
		groups[r.Name()] = g
	}
	for r := range e.removed.leaving {
		if g, ok := groups[r.Name()]; ok {
			g.Leaving = append(g.Leaving, r)
			groups[r.Name()] = g
		}
	}
	return groups
}

// registered reports whether a handler with this name is registered. The caller must hold e.mu.
func (e *Engine) registered(name string) bool {
	for r := range e.handlers {
		if r.Name() == name {
			return true
		}
	}
	return false
}

// noteRemoved records the removal of a running handler, whose last call may not have returned. The
// caller must hold e.mu.
func (e *Engine) noteRemoved(r *delivery.Registration) {
	if e.registered(r.Name()) {
		e.removed.leaving[r] = struct{}{}
		return
	}
	delete(e.removed.left, r.Name())
}

// noteLeft records that the last call of a handler has returned.
func (e *Engine) noteLeft(r *delivery.Registration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.removed.leaving[r]; !ok {
		return
	}
	delete(e.removed.leaving, r)
	if e.registered(r.Name()) {
		e.removed.left[r.Name()] = e.removed.left[r.Name()].Plus(TotalsOf(r.Stats()))
	}
}
