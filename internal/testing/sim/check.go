package sim

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// pair is one namespace with one selector. An informer sends one LIST and one WATCH for each pair
// of its scope. An empty namespace means all namespaces.
type pair struct {
	namespace string
	selector  labels.Selector
}

func (p pair) matches(v *api.Version) bool {
	return (p.namespace == "" || p.namespace == v.Key.Namespace) && p.selector.Matches(labels.Set(v.Labels))
}

// filtered restricts the pair to objects whose label app has this value.
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

// pairs returns every combination of a namespace and a selector of the scope. A scope without
// namespaces includes all namespaces, and one without selectors includes all objects. pairs panics
// if a selector is invalid.
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

// matches reports whether the scope includes a version of an object. v may be nil; then it returns
// false.
func (s Scope) matches(v *api.Version) bool {
	return v != nil && slices.ContainsFunc(s.pairs(), func(p pair) bool { return p.matches(v) })
}

// choosing returns the pairs that match v.
func (s Scope) choosing(v *api.Version) []pair {
	return slices.DeleteFunc(s.pairs(), func(p pair) bool { return !p.matches(v) })
}

// filtered restricts the scope to objects whose label app has this value. An empty app restricts
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

// loses reports whether a WATCH of the scope sends a deletion when one version (old) is replaced by
// another (new). Only the WATCH of a pair that matches the old version can send a deletion. It does
// so if new is nil, if the two uids differ, or if the new version does not match that pair.
func (s Scope) loses(old, new *api.Version) bool {
	if new == nil || old.UID != new.UID {
		return true
	}
	return slices.ContainsFunc(s.pairs(), func(p pair) bool { return p.matches(old) && !p.matches(new) })
}

// concerned reports whether the WATCHes of all pairs send an event for the change.
func (s Scope) concerned(ch api.Change) bool {
	return !slices.ContainsFunc(s.pairs(), func(p pair) bool {
		return (ch.Old == nil || !p.matches(ch.Old)) && (ch.New == nil || !p.matches(ch.New))
	})
}

// ceases returns the first revision of an era, after v, at which v's object ended for the scope. It
// returns false if there is none. The object ends in three cases: it is deleted, an object with
// another uid replaces it, or its version no longer matches a pair that v or a version since v
// matched. In the last case, only the WATCH of that pair must report the end at once. The other
// WATCHes may report it later.
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

// grace is the maximum time that a watch needs in a calm world to list, or to send a change after
// another watch has sent it. A watch cache that is not ready asks its clients to wait for a second.
const grace = 3 * time.Second

// departs reports whether v's object left a pair at some revision after v, while no other pair had
// matched it for longer than grace. It is stricter than ceases, and valid only in a calm world,
// where each watch has sent all events within grace.
func (s Scope) departs(e *api.Era, v *api.Version) bool {
	pairs := s.pairs()
	since := make([]time.Duration, len(pairs)) // when each pair started to match the key
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

// ceased reports whether v's object ended in any era, so that an informer may report its deletion.
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
				yes = true // a restore removed v
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

// follows returns an error if a handler or reader with this scope must not receive a representation
// (now) after the last one of the same key (was). In an unordered world it always returns nil.
func (r *run) follows(s Scope, was last, now api.Representation) (err error) {
	if r.unordered {
		return nil
	}
	from, to := was.rep, now
	r.cluster.Do(func(h *api.History) {
		undone := func() bool { // the servers went back to a state that has to.Version, not from.Version
			return slices.ContainsFunc(h.Eras(), func(e *api.Era) bool {
				return e.Index > from.Version.Era.Index && !e.Has(from.Version) && e.Has(to.Version)
			})
		}
		kept := func() bool { // the servers went back to a state that has to.Version
			return slices.ContainsFunc(h.Eras(), func(e *api.Era) bool { return e.Index > from.Version.Era.Index && e.Has(to.Version) })
		}
		// removed reports whether a restore removed the version. Then one watch of the scope may find
		// the deletion before another watch, which stalled before the restore, sends the version: see
		// stalled.
		removed := func() bool {
			return slices.ContainsFunc(h.Eras(), func(e *api.Era) bool {
				return e.Index > from.Version.Era.Index && !e.Has(from.Version)
			})
		}
		switch {
		case from.Version == to.Version && was.gone:
			if !kept() && !(len(s.pairs()) > 1 && removed()) {
				err = fmt.Errorf("%v is back after it was gone", to)
			}
		case from.Version == to.Version && from.Schema == to.Schema:
			if !r.orders {
				err = fmt.Errorf("%v again, unchanged", to)
			}
		case from.Version == to.Version && from.Schema > to.Schema && (r.world.repeats() || len(s.pairs()) > 1):
			// An event's resourceVersion does not show the schema. So the reader cannot know whether the
			// event repeats an earlier one, is late because another watch sent it, or is new.
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

// stalled reports whether a reader may receive a version (now) after a version that was written
// later (was). That is possible if another watch of the scope stalled before a restore. After the
// restore, that watch sends events of the former era, whose resourceVersions are higher than the
// resourceVersion of the version was. A client can detect that only when the watch ends.
func (s Scope) stalled(was, now *api.Version) bool {
	return len(s.pairs()) > 1 && now.Era.Index < was.Era.Index && now.Revision > was.Revision
}

// next returns an error if the key changed in the handler's scope between the handler's last event
// (was) and the current one (now): the handler has then not received that change.
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

// back returns the name of a check that no object goes back. The name has a suffix for clients that
// merge several watches, because each of these watches has its own speed.
func (c *client) back(rule string) string {
	if len(c.spec.Scope.pairs()) > 1 {
		return rule + "-merged"
	}
	return rule
}
