package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// handler is one handler of an informer and what it was told. It checks each call as it comes.
type handler struct {
	run    *run
	client *client
	spec   HandlerSpec
	scope  Scope // what it gets events of: its client's scope, filtered
	name   string
	reg    registration // nil until it is registered

	// steady has the keys that were there when the handler began, and ever since, each with the
	// pairs of its scope that have chosen it all the time. A key that has gone from one pair to
	// another need not be in the first list of either. steadyMu is taken inside the lock of the
	// cluster and inside mu, and no lock inside it.
	steadyMu sync.Mutex
	steady   map[api.Key][]pair

	mu   sync.Mutex // the cluster's lock may be taken inside it
	seen map[api.Key]last
	// due has the IDs of the versions that the handler must have been told when it says that it has
	// synced. It is nil until they are known.
	due   map[api.Key]int
	done  time.Duration // since when due is empty
	went  int           // how many keys of due went before the handler was told of them
	said  bool          // that it has synced
	ended bool

	resyncs []resync // since resyncs were last counted
	quiet   bool     // nothing but resyncs was told since then
}

// resync is one object that a sweep handed out.
type resync struct {
	key api.Key
	at  time.Duration
}

// last is what a handler was last told of a key.
type last struct {
	rep  api.Representation
	gone bool
}

// tell handles an event. It checks the event, and blocks for as long as the handler is to take, or
// until ctx ends.
func (h *handler) tell(ctx context.Context, e event) {
	h.mu.Lock()
	late := h.ended
	h.mu.Unlock()
	if late {
		h.wrong("after-removal", "%v %v", e.typ, e.key)
	}
	h.run.yield()
	h.synced()
	h.check(e)
	if h.run.logging {
		h.run.logf("%s: %v %v old=%v new=%v", h.name, e.typ, e.key, e.old, e.new)
	}
	now := h.run.now()
	if h.spec.Block > 0 && now >= h.spec.Block && now < h.spec.Free {
		sleep(ctx, h.spec.Free-now)
	}
	sleep(ctx, h.spec.Delay)
	h.run.yield()
}

func (o object) String() string {
	if o.rep.Version == nil && o.problem == "" {
		return "-"
	}
	if o.problem != "" {
		return o.problem
	}
	return o.rep.String()
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// check compares an event with what the handler was told before.
func (h *handler) check(e event) {
	h.run.observe(h.client)
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.typ == resynced {
		h.resyncs = append(h.resyncs, resync{e.key, h.run.now()})
	} else {
		h.quiet = false
	}
	for _, o := range []object{e.old, e.new} {
		if o.problem != "" {
			h.wrong("object", "%v %v: %s", e.typ, e.key, o.problem)
			return
		}
	}
	was, known := h.seen[e.key]
	present := known && !was.gone
	switch e.typ {
	case added:
		if present {
			h.wrong("order", "Added %v, but it has %v", e.new, was.rep)
		} else if known {
			h.later(was, e.new.rep)
		}
	case updated, resynced:
		if !present {
			h.wrong("order", "%v %v, but it has nothing", e.typ, e.new)
			return
		}
		if e.old.rep != was.rep {
			h.wrong("order", "%v from %v to %v, but it has %v", e.typ, e.old, e.new, was.rep)
		}
		if e.typ == updated {
			h.later(was, e.new.rep)
		} else if e.new.rep != was.rep {
			h.wrong("order", "Resynced %v, but it has %v", e.new, was.rep)
		}
	case deleted:
		if !present {
			h.wrong("order", "Deleted %v, but it has nothing", e.old)
			return
		}
		if e.final && (e.old.rep.Version.ID >= was.rep.Version.ID || h.run.world.goesBack() || h.run.unordered) {
			// The handler may never have received the last state, which is of the server's schema by then.
			// Where old events cannot be told from new ones, it may be the end of an earlier object.
			e.old.rep = was.rep
		}
		if e.old.rep != was.rep {
			h.wrong("order", "Deleted %v, but it has %v", e.old, was.rep)
		}
		if !h.run.unordered && !h.run.ceased(h.scope, was.rep.Version) && !h.toldAsSent() {
			h.wrong("spurious-delete", "Deleted %v, which never went", was.rep)
		}
		h.seen[e.key] = last{rep: was.rep, gone: true}
		return
	}
	if !h.scope.matches(e.new.rep.Version) {
		h.wrong("scope", "%v %v, which is not asked for", e.typ, e.new)
	}
	h.seen[e.key] = last{rep: e.new.rep}
}

// toldAsSent reports whether the handler gets what servers send again as if it were new, as
// client-go does. An object whose resourceVersion does not grow gets an invented one. It is
// compared by its content, which differs between events and lists.
func (h *handler) toldAsSent() bool { return h.client.spec.takesAsSent(h.run.world) }

func (c ClientSpec) takesAsSent(w *World) bool {
	return c.returned() && (w.repeats() || w.opaque() || w.goesBack())
}

// later checks that a version may follow what was told before.
func (h *handler) later(was last, now api.Representation) {
	if h.toldAsSent() {
		return
	}
	if err := h.run.follows(h.scope, was, now); err != nil {
		h.wrong(h.client.back("back"), "%v", err)
	}
	if h.run.calm && h.client.spec.LogBytes == 0 && len(h.scope.pairs()) == 1 && h.client.spec.Runner != Chain {
		if err := h.run.next(h.scope, was, now); err != nil {
			h.wrong("skipped", "%v", err)
		}
	}
}

func (h *handler) wrong(rule, format string, args ...any) {
	h.run.violate(rule, h.client, "%s: %s", h.name, fmt.Sprintf(format, args...))
}

// late checks that the handler has synced once it was told of everything that was there when it and
// its informer began: for each object, of the version that was there or a later one. An older
// version, of which the watch of another selector told, is not the one that the last of the first
// lists has.
func (h *handler) late() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reg == nil || h.ended || h.reg.HasSynced() || !h.client.informer.HasSynced() {
		return
	}
	if h.due == nil {
		h.due = map[api.Key]int{}
		for key, was := range h.client.read {
			if !was.gone && h.scope.matches(was.rep.Version) {
				h.due[key] = was.rep.Version.ID
			}
		}
	}
	now := h.run.now()
	maps.DeleteFunc(h.due, func(key api.Key, id int) bool {
		was, told := h.seen[key]
		told = told && (was.rep.Version.ID >= id || h.run.world.goesBack())
		now := h.client.read[key]
		went := now.gone || !h.scope.matches(now.rep.Version)
		if went && !told {
			h.went++
		}
		return told || went
	})
	switch {
	case len(h.due) > 0:
	case h.done == 0:
		h.done = now
	case now-h.done > time.Second+h.backlog() && (h.spec.Block == 0 || now < h.spec.Block || h.done > h.spec.Free):
		h.wrong("synced-late", "was told of everything %v ago, but has not synced", now-h.done)
	}
}

// backlog returns how long the handler may take for what it was to be told before it has synced. It
// may have in hand what went meanwhile. Of several selectors, one may tell that an object has left
// before the first list of another one has it, or go on with changes until that list comes. So does
// a server that never ends its initial events.
func (h *handler) backlog() time.Duration {
	n, pairs := 1+h.went, len(h.scope.pairs())
	if pairs > 1 || h.client.spec.Mode == "watchlist" && slices.ContainsFunc(h.run.world.Servers, func(s api.Spec) bool { return s.Old }) {
		h.run.cluster.Do(func(hist *api.History) {
			for _, e := range hist.Eras() { // those before a restore wait for a slow handler too
				n += pairs * int(e.Head()-e.Base)
			}
		})
	}
	return h.spec.Delay * time.Duration(n)
}

// remove removes the handler. From then on it must be told nothing.
func (h *handler) remove() {
	if h.reg == nil {
		return
	}
	h.reg.Remove()
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
}

// synced checks that a handler that has synced was told of every steady key.
func (h *handler) synced() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reg == nil || !h.reg.HasSynced() {
		return
	}
	for _, key := range h.missing() {
		h.wrong("synced-early", "has synced, but was not told of %v", key)
	}
	if !h.said {
		h.said = true
		for _, v := range h.outdated() {
			h.wrong("synced-early", "has synced, but was not told of %v, which a first list has", v)
		}
	}
}

// outdated returns the versions of steady keys that the first lists of the informer had, and the
// handler was told of neither these nor later ones. mu is held.
func (h *handler) outdated() (all []*api.Version) {
	if h.run.world.goesBack() || h.run.maySyncOld(h.client) {
		return nil // the lists that count may be older than the first
	}
	if h.run.world.Unordered() {
		return nil // an older state of an object may be told last
	}
	for _, p := range h.client.spec.Scope.pairs() {
		first := h.client.api.FirstList(p.namespace, p.selector.String())
		if first == 0 {
			continue
		}
		asked := p.filtered(h.spec.Filter)
		h.run.cluster.Do(func(hist *api.History) {
			h.steadyMu.Lock()
			defer h.steadyMu.Unlock()
			for key, chosenBy := range h.steady {
				v := hist.Era().Get(first, key)
				if v == nil || !asked.matches(v) || !slices.ContainsFunc(chosenBy, asked.same) {
					continue
				}
				if h.seen[key].rep.Version.ID < v.ID {
					all = append(all, v)
				}
			}
		})
	}
	return all
}

// missing returns the steady keys that the handler was not told of, and removes them from steady.
// mu is held.
func (h *handler) missing() (keys []api.Key) {
	h.steadyMu.Lock()
	defer h.steadyMu.Unlock()
	for key := range h.steady {
		if _, ok := h.seen[key]; !ok {
			keys = append(keys, key)
			delete(h.steady, key)
		}
	}
	return keys
}

// atRest reports how what the handler was told differs from want, which is what the informer holds.
func (h *handler) atRest(want map[api.Key]api.Representation, synced bool, report func(string, string, ...any)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reg == nil || h.ended {
		return
	}
	for key, was := range h.seen {
		rep, ok := want[key]
		ok = ok && h.scope.matches(rep.Version)
		if was.gone == ok {
			report("handler-stale", "%s: %v: told of %v gone=%v; held is %v", h.name, key, was.rep, was.gone, rep.Version)
		} else if ok && rep != was.rep {
			report("handler-stale", "%s: %v: told of %v; held is %v", h.name, key, was.rep, rep)
		}
	}
	for key, rep := range want {
		if _, ok := h.seen[key]; !ok && h.scope.matches(rep.Version) {
			report("handler-stale", "%s: was never told of %v", h.name, rep)
		}
	}
	if synced && !h.reg.HasSynced() {
		report("never-synced", "%s: has not synced", h.name)
	}
}
