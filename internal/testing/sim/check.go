package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// pair is one namespace and one selector: a LIST and a WATCH.
type pair struct {
	namespace string
	selector  labels.Selector
}

func (p pair) matches(v *api.Version) bool {
	return (p.namespace == "" || p.namespace == v.Key.Namespace) && p.selector.Matches(labels.Set(v.Labels))
}

// filtered returns the part of the pair that has this value of label app, as Scope.filtered does.
func (p pair) filtered(app string) pair {
	s := Scope{Namespaces: []string{p.namespace}}
	if !p.selector.Empty() {
		s.Selectors = []string{p.selector.String()}
	}
	return s.filtered(app).pairs()[0]
}

func (p pair) same(q pair) bool {
	return p.namespace == q.namespace && p.selector.String() == q.selector.String()
}

// pairs returns all pairs of the scope: each namespace with each selector. A scope without
// namespaces or without selectors leaves that side open. pairs panics if a selector is invalid.
func (s Scope) pairs() []pair {
	namespaces, selectors := s.Namespaces, s.Selectors
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if len(selectors) == 0 {
		selectors = []string{""}
	}
	var all []pair
	for _, ns := range namespaces {
		for _, sel := range selectors {
			parsed, err := labels.Parse(sel)
			if err != nil {
				panic(err)
			}
			all = append(all, pair{ns, parsed})
		}
	}
	return all
}

// matches reports whether the scope includes a version.
func (s Scope) matches(v *api.Version) bool {
	return v != nil && slices.ContainsFunc(s.pairs(), func(p pair) bool { return p.matches(v) })
}

// choosing returns the pairs that choose v.
func (s Scope) choosing(v *api.Version) []pair {
	return slices.DeleteFunc(s.pairs(), func(p pair) bool { return !p.matches(v) })
}

// filtered returns the part of the scope that has this value of label app. An empty value filters
// nothing.
func (s Scope) filtered(app string) Scope {
	if app == "" {
		return s
	}
	f := Scope{Namespaces: s.Namespaces, Selectors: []string{"app=" + app}}
	if len(s.Selectors) > 0 {
		f.Selectors = nil
	}
	for _, sel := range s.Selectors {
		f.Selectors = append(f.Selectors, sel+",app="+app)
	}
	return f
}

// loses reports whether one of the pairs that chose old does not choose new, or new is another
// object or none: then the object is deleted for a WATCH.
func (s Scope) loses(old, new *api.Version) bool {
	if new == nil || old.UID != new.UID {
		return true
	}
	return slices.ContainsFunc(s.pairs(), func(p pair) bool { return p.matches(old) && !p.matches(new) })
}

// concerned reports whether each of the scope's watches tells of a change.
func (s Scope) concerned(ch api.Change) bool {
	return !slices.ContainsFunc(s.pairs(), func(p pair) bool {
		return (ch.Old == nil || !p.matches(ch.Old)) && (ch.New == nil || !p.matches(ch.New))
	})
}

// ceases returns the first revision of an era, after v, at which v's object ended; false: there is
// none. It ended if it was gone, or was another one, or was out of scope, or had left one of the
// pairs that chose v or a version since. The WATCH of that pair tells of its end. The others need
// not have told of it yet.
func (s Scope) ceases(e *api.Era, v *api.Version) (int64, bool) {
	for _, ch := range e.Since(v.Revision, e.Head()) {
		if ch.Old == nil && ch.New == nil || ch.Key() != v.Key {
			continue
		}
		if s.loses(v, ch.New) {
			return ch.Revision, true
		}
		v = ch.New
	}
	return 0, false
}

// grace is how long one of several watches may take to list, or to tell of a change that another
// one has told of, where nothing is in the way. A watch cache that is not ready yet asks for a
// second.
const grace = 3 * time.Second

// departs reports whether v's object, after v, was gone or left the scope, or left one of its pairs
// while no other pair had had it for longer than grace. It is stricter than ceases: it holds where
// nothing is in the way, so that each watch has told what it has.
func (s Scope) departs(e *api.Era, v *api.Version) bool {
	pairs := s.pairs()
	since := make([]time.Duration, len(pairs)) // when each pair began to have the key
	for _, ch := range e.Since(e.Base, e.Head()) {
		if ch.Old == nil && ch.New == nil || ch.Key() != v.Key {
			continue
		}
		lost, kept := !s.matches(ch.New), false
		for i, p := range pairs {
			had, has := ch.Old != nil && p.matches(ch.Old), ch.New != nil && p.matches(ch.New)
			switch {
			case had && has:
				kept = kept || ch.At-since[i] > grace
			case has:
				since[i] = max(ch.At, 0)
			case had:
				lost = true
			}
		}
		if ch.Revision > v.Revision && lost && !kept {
			return true
		}
	}
	return false
}

// ceased reports whether there was ever a reason to say that the object of v is gone.
func (r *run) ceased(s Scope, v *api.Version) bool {
	if r.unordered {
		return true
	}
	var yes bool
	r.cluster.Do(func(h *api.History) {
		for _, e := range h.Eras() {
			switch {
			case e.Index < v.Era.Index:
			case !e.Has(v):
				yes = true // undone
			default:
				_, ok := s.ceases(e, v)
				if r.calm && len(s.pairs()) > 1 {
					ok = s.departs(e, v)
				}
				yes = yes || ok
			}
		}
	})
	return yes
}

// follows returns an error if a handler or reader of a scope that has seen one representation of a
// key must not be shown another one next, and nil if it may. In an unordered world it may be shown
// anything.
func (r *run) follows(s Scope, was last, now api.Representation) (err error) {
	if r.unordered {
		return nil
	}
	from, to := was.rep, now
	r.cluster.Do(func(h *api.History) {
		undone := func() bool { // the server went back to a state before from, which has to
			return slices.ContainsFunc(h.Eras(), func(e *api.Era) bool {
				return e.Index > from.Version.Era.Index && !e.Has(from.Version) && e.Has(to.Version)
			})
		}
		kept := func() bool { // the server went back to a state that has it
			return slices.ContainsFunc(h.Eras(), func(e *api.Era) bool { return e.Index > from.Version.Era.Index && e.Has(to.Version) })
		}
		switch {
		case from.Version == to.Version && was.gone:
			if !kept() {
				err = fmt.Errorf("%v is back after it was gone", to)
			}
		case from.Version == to.Version && from.Schema == to.Schema:
			if !r.orders {
				err = fmt.Errorf("%v again, unchanged", to)
			}
		case from.Version == to.Version && from.Schema > to.Schema && (r.world.repeats() || len(s.pairs()) > 1):
			// Only the resourceVersion of an event shows whether it repeats an earlier one, or came late
			// from another watch, or was sent since.
		case from.Version == to.Version && from.Schema > to.Schema:
			err = fmt.Errorf("%v after %v", to, from)
		case to.Version.ID < from.Version.ID:
			if !undone() && !s.stalled(from.Version, to.Version) {
				err = fmt.Errorf("%v after %v, which is newer", to, from)
			}
		case was.gone && to.Version.Era == from.Version.Era:
			if rev, ok := s.ceases(from.Version.Era, from.Version); ok && to.Version.Revision < rev && len(s.pairs()) == 1 && !kept() {
				err = fmt.Errorf("%v, after the object of %v was gone at %d", to, from, rev)
			}
		}
	})
	return err
}

// stalled reports whether a version may follow one that was written later because another watch of
// the scope stalled before the server was restored. That watch brings the former past afterwards,
// with a higher resourceVersion than has been given since. A client cannot tell until that watch
// has ended.
func (s Scope) stalled(was, now *api.Version) bool {
	return len(s.pairs()) > 1 && now.Era.Index < was.Era.Index && now.Revision > was.Revision
}

// next returns an error if something that the scope includes came between the previous event of a
// key and the next one.
func (r *run) next(s Scope, was last, now api.Representation) (err error) {
	r.cluster.Do(func(h *api.History) {
		e := h.Era()
		for _, ch := range e.Since(was.rep.Version.Revision, now.Version.Revision-1) {
			switch {
			case ch.Old == nil && ch.New == nil || ch.Key() != now.Version.Key:
			case s.matches(ch.New):
				err = fmt.Errorf("%v after %v: %v was not told", now, was.rep, ch.New)
			case !was.gone && s.matches(ch.Old):
				err = fmt.Errorf("%v after %v: the end of %v was not told", now, was.rep, ch.Old)
			}
		}
	})
	return err
}

// back returns the name of a rule against going back. It is another one for watches that are
// merged, since each of them runs at its own speed.
func (c *client) back(rule string) string {
	if len(c.spec.Scope.pairs()) > 1 {
		return rule + "-merged"
	}
	return rule
}
