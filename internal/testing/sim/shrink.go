package sim

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// shrinker removes parts of a failing world as long as the smaller world fails in the same way.
type shrinker struct {
	t        *testing.T
	world    *World
	fails    Violation
	deadline time.Time
	tries    int // the number of successful runs after which a world counts as not failing
}

// shrink removes the parts of a world that are not necessary to cause the violation in fails, and
// returns the smaller world. It stops after the time limit.
func shrink(t *testing.T, w *World, fails Violation, limit time.Duration) *World {
	s := &shrinker{t: t, world: w.clone(), fails: fails, deadline: time.Now().Add(limit), tries: 1}
	for failed, n := 0, 1; n <= 8; n++ { // the seed does not determine all of a run, so repeat it
		if s.failing(s.world) {
			failed++
		}
		s.tries = 1 + 2*(n-failed)
		if failed > 1 {
			break
		}
	}
	for before := -1; before != s.world.size() && time.Now().Before(s.deadline); {
		before = s.world.size()
		s.components()
		s.steps()
		s.details()
	}
	s.times()
	return s.world
}

// clone copies the parts of a world that the shrinker changes.
func (w *World) clone() *World {
	c := *w
	c.Before, c.Steps, c.Servers, c.Keys = slices.Clone(w.Before), slices.Clone(w.Steps), slices.Clone(w.Servers), slices.Clone(w.Keys)
	c.Clients = slices.Clone(w.Clients)
	for i := range c.Clients {
		cl := &c.Clients[i]
		cl.Handlers = slices.Clone(cl.Handlers)
		cl.Scope.Namespaces, cl.Scope.Selectors = slices.Clone(cl.Scope.Namespaces), slices.Clone(cl.Scope.Selectors)
	}
	return &c
}

func (w *World) size() int {
	n := len(w.Before) + len(w.Steps) + len(w.Servers)
	for _, c := range w.Clients {
		n += 1 + len(c.Handlers) + len(c.Scope.Namespaces) + len(c.Scope.Selectors)
	}
	return n
}

// try applies a change to the world. If the world still fails, try keeps the change and returns
// true.
func (s *shrinker) try(change func(w *World)) bool {
	if time.Now().After(s.deadline) {
		return false
	}
	w := s.world.clone()
	change(w)
	for range s.tries {
		if s.failing(w) {
			s.world = w
			return true
		}
	}
	return false
}

// failing runs a world once, and returns true if it fails in the same way.
func (s *shrinker) failing(w *World) bool {
	return slices.ContainsFunc(execute(s.t, w, false).Violations, func(v Violation) bool {
		return v.Rule == s.fails.Rule && v.Runner == s.fails.Runner
	})
}

// steps removes steps: first halves of them, then quarters, and so on, down to single steps.
func (s *shrinker) steps() {
	for n := (len(s.world.Steps) + 1) / 2; n > 0; n /= 2 {
		for i := len(s.world.Steps) - n; i > -n; i -= n {
			from := max(i, 0)
			s.try(func(w *World) { w.Steps = slices.Delete(w.Steps, from, min(from+n, len(w.Steps))) })
		}
	}
	without(s, 0, func(w *World) *[]Step { return &w.Before })
}

// components removes clients, handlers, servers and parts of scopes.
func (s *shrinker) components() {
	for i := len(s.world.Clients) - 1; i >= 0 && len(s.world.Clients) > 1; i-- {
		s.try(func(w *World) {
			w.Clients = slices.Delete(w.Clients, i, i+1)
			for j := range w.Steps {
				w.Steps[j].Client, w.Steps[j].Rule.Client = 0, -1
			}
		})
	}
	without(s, 1, func(w *World) *[]api.Spec { return &w.Servers })
	for i := range s.world.Clients {
		without(s, 0, func(w *World) *[]HandlerSpec { return &w.Clients[i].Handlers })
		without(s, 0, func(w *World) *[]string { return &w.Clients[i].Scope.Selectors })
		without(s, 0, func(w *World) *[]string { return &w.Clients[i].Scope.Namespaces })
	}
}

// without removes elements of a slice as long as more than least of them remain.
func without[T any](s *shrinker, least int, in func(*World) *[]T) {
	for i := len(*in(s.world)) - 1; i >= 0 && len(*in(s.world)) > least; i-- {
		s.try(func(w *World) { *in(w) = slices.Delete(*in(w), i, i+1) })
	}
}

// details sets fields to their zero values if the world still fails without their values.
func (s *shrinker) details() {
	for i := range s.world.Servers {
		plain(s, func(w *World) *api.Spec { return &w.Servers[i] })
	}
	for i := range s.world.Clients {
		plain(s, func(w *World) *ClientSpec { return &w.Clients[i] })
		for j := range s.world.Clients[i].Handlers {
			plain(s, func(w *World) *HandlerSpec { return &w.Clients[i].Handlers[j] })
		}
	}
	if s.world.Scheme != api.Integers {
		s.try(func(w *World) { w.Scheme = api.Integers })
	}
	if s.world.Builtin {
		s.try(func(w *World) { w.Builtin = false })
	}
}

// plain sets the fields of a struct to their zero values if the world still fails.
func plain[T any](s *shrinker, in func(*World) *T) {
	for i := range reflect.TypeFor[T]().NumField() {
		field := func(w *World) reflect.Value { return reflect.ValueOf(in(w)).Elem().Field(i) }
		f := field(s.world)
		if f.CanSet() && !f.IsZero() && f.Kind() != reflect.Slice && reflect.TypeFor[T]().Field(i).Name != "Runner" {
			s.try(func(w *World) { field(w).SetZero() })
		}
	}
}

// times rounds the times of steps to whole seconds, which are easier to read.
func (s *shrinker) times() {
	round := func(d time.Duration) time.Duration {
		if d == 0 {
			return 0
		}
		return max(d.Round(time.Second), time.Second)
	}
	s.try(func(w *World) {
		for i := range w.Steps {
			w.Steps[i].At = round(w.Steps[i].At)
			w.Steps[i].Rule.Until = round(w.Steps[i].Rule.Until)
		}
	})
}
