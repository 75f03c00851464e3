package engine

import (
	"time"

	"github.com/weirproject/weir/internal/core/delivery"
)

// HandlerGroup contains the handlers of one name. Their totals do not decrease when one of them is
// removed, unless it is the last.
type HandlerGroup struct {
	Handlers []*delivery.Registration // the registered ones, at least one
	Leaving  []*delivery.Registration // removed ones whose last call may not have returned
	Left     Totals                   // the sum of removed ones that have returned
}

// Totals are the sums of handlers' counts.
type Totals struct {
	Handled uint64 // calls, resyncs included
	Panics  uint64
	Spent   time.Duration // total duration of the calls
}

// TotalsOf returns the counts of one handler.
func TotalsOf(s delivery.Stats) Totals { return Totals{s.Handled, s.Panics, s.Spent} }

// Plus returns the sum of t and u.
func (t Totals) Plus(u Totals) Totals {
	return Totals{t.Handled + u.Handled, t.Panics + u.Panics, t.Spent + u.Spent}
}

// removals records the handlers that were removed while another one of the same name was
// registered. It has at most as many names as there are registered handlers.
type removals struct {
	leaving map[*delivery.Registration]struct{}
	left    map[string]Totals // by name
}

// HandlerGroups returns the registered handlers by name.
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

// registered reports whether a handler of a name is registered. The caller holds the lock.
func (e *Engine) registered(name string) bool {
	for r := range e.handlers {
		if r.Name() == name {
			return true
		}
	}
	return false
}

// noteRemoved is called when a served handler is no longer registered. Its last call may not have
// returned. The caller holds the lock.
func (e *Engine) noteRemoved(r *delivery.Registration) {
	if e.registered(r.Name()) {
		e.removed.leaving[r] = struct{}{}
		return
	}
	delete(e.removed.left, r.Name())
}

// noteLeft is called when the last call of a handler has returned.
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
