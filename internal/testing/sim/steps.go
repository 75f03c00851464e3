package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// steps executes the world's steps at their times.
func (r *run) steps() {
	for _, s := range r.agenda() {
		if s.precedes() {
			continue
		}
		if wait := s.At - r.now(); wait > 0 {
			time.Sleep(wait)
			synctest.Wait()
			r.look()
			if r.failed() {
				return
			}
		}
		if r.logging {
			r.logf("--- %s", strings.TrimSpace(strings.TrimPrefix(s.describe(r.world.Keys), s.At.String())))
		}
		r.step(s)
		r.yield()
	}
	if wait := r.world.Lasts() - r.now(); wait > 0 {
		time.Sleep(wait)
	}
	for i, s := range r.world.Servers {
		r.cluster.SetLag(i, s.Lag)
	}
}

// precedes reports whether a step is made before the clients start: a fault that exists from the
// beginning. Otherwise it might affect the first requests of some clients only.
func (s Step) precedes() bool { return s.Op == Fault && s.At == 0 }

// agenda returns the world's steps and the steps that the specs of handlers require, ordered by
// time.
func (r *run) agenda() []Step {
	all := slices.Clone(r.world.Steps)
	for i, c := range r.world.Clients {
		for j, h := range c.Handlers {
			if h.Add > 0 {
				all = append(all, Step{At: h.Add, Op: Register, Client: i, N: int64(j)})
			}
			if h.Remove > 0 {
				all = append(all, Step{At: h.Remove, Op: Remove, Client: i, N: int64(j)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return all
}

func (r *run) step(s Step) {
	switch s.Op {
	case Put, Delete, Recreate, Bump, Restore, Replace:
		r.cluster.Do(func(h *api.History) { r.write(h, s, r.now()) })
		if s.Op == Restore || s.Op == Replace {
			r.cluster.RestartAll()
		}
	case Compact:
		r.cluster.Shrink()
	case Schema:
		r.cluster.SetSchema()
	case Fault:
		r.cluster.AddRule(s.Rule)
	case CutAll:
		r.cluster.CutWatches(s.Server)
	case Restart:
		r.cluster.Restart(s.Server)
	case Lag:
		r.cluster.SetLag(s.Server, s.D)
	case Route:
		r.clients[s.Client%len(r.clients)].api.Route(s.Server)
	case Look:
		r.readClient(r.clients[s.Client%len(r.clients)], false)
	case Await:
		r.await(r.clients[s.Client%len(r.clients)])
	case Register:
		r.handle(r.clients[s.Client].handlers[s.N])
	case Remove:
		r.clients[s.Client].handlers[s.N].remove()
	}
}

// write adds the write of a step to the history.
func (r *run) write(h *api.History, s Step, at time.Duration) {
	labels := map[string]string{"tier": "t"}
	if s.Label != "" {
		labels["app"] = s.Label
	}
	key := api.Key{}
	if s.Key < len(r.world.Keys) {
		key = r.world.Keys[s.Key]
	}
	switch s.Op {
	case Put:
		h.Put(at, key, labels, s.Node)
	case Delete:
		h.Delete(at, key)
	case Recreate:
		if h.Delete(at, key) {
			if at >= 0 {
				r.unsteady(h) // a client may list between the deletion and the creation
			}
			h.Put(at, key, labels, s.Node)
		}
	case Bump:
		for range s.N {
			h.Bump(at)
		}
	case Restore:
		h.Restore(at, h.Era().Head()-s.N)
	case Replace:
		h.Replace(at, s.N, s.Scheme)
	}
	if at >= 0 {
		r.unsteady(h)
	}
}

// unsteady updates the steady keys of each handler after a write. It removes the pairs that no
// longer match a key, and then the keys without pairs.
func (r *run) unsteady(hist *api.History) {
	e := hist.Era()
	for _, c := range r.clients {
		for _, h := range c.handlers {
			h.steadyMu.Lock()
			maps.DeleteFunc(h.steady, func(k api.Key, pairs []pair) bool {
				v := e.Get(e.Head(), k)
				pairs = slices.DeleteFunc(pairs, func(p pair) bool { return v == nil || !p.matches(v) })
				h.steady[k] = pairs
				return len(pairs) == 0
			})
			h.steadyMu.Unlock()
		}
	}
}

// look reads every informer while no other goroutine runs, and checks the results.
func (r *run) look() {
	for _, c := range r.clients {
		r.behind(c, r.readClient(c, true))
		for _, h := range c.handlers {
			h.synced()
			h.late()
		}
		if c.api.Hammers() {
			r.violate("hammers", c, "requests without a pause")
		}
	}
}

// behind checks that an informer has reached the resourceVersion of the last change that all of its
// watches have sent. A caller that waits for this version then need not wait for a bookmark. behind
// checks only calm worlds.
func (r *run) behind(c *client, v view) {
	if !r.calm || c.spec.Runner == Chain || !c.informer.HasSynced() || v.resourceVersion == "" {
		return
	}
	r.cluster.Do(func(h *api.History) {
		e := h.Era()
		at, ok := e.Parse(v.resourceVersion)
		for _, ch := range e.Since(at, e.Head()) {
			if ok && c.spec.Scope.concerned(ch) && r.now()-ch.At > 100*time.Millisecond {
				r.violate("behind", c, "is at %s, a while after %v became %v at %d", v.resourceVersion, ch.Old, ch.New, ch.Revision)
				return
			}
		}
	})
}

// readClient reads a client's informer, and checks that no object went back to an earlier version.
// It does not check a client that delivers repeated events, whose objects may go back.
func (r *run) readClient(c *client, quiet bool) view {
	synced := c.informer.HasSynced()
	v := c.informer.Read(quiet, func(format string, args ...any) { r.violate("read", c, format, args...) })
	if synced {
		r.relistIsWhole(c, v, 0)
	}
	for key, rep := range v.objects {
		if was, ok := c.read[key]; (ok && was.rep != rep || was.gone) && !c.spec.takesAsSent(r.world) {
			if err := r.follows(c.spec.Scope, was, rep); err != nil {
				r.violate(c.back("read-back"), c, "read %v", err)
			}
		}
		c.read[key] = last{rep: rep}
	}
	for key, was := range c.read {
		if _, ok := v.objects[key]; !ok {
			c.read[key] = last{rep: was.rep, gone: true}
		}
	}
	return v
}
