package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// handler is a handler of an informer. It records the events that it receives, and checks each of
// them immediately.
type handler struct {
	run    *run
	client *client
	spec   HandlerSpec
	scope  Scope // the client's scope, restricted by spec.Filter
	name   string
	reg    registration // nil until the handler is registered

	// steady contains the keys that have existed since the handler was registered. For each key, it
	// contains the pairs of the client's scope that have matched the key all that time: an object that
	// moves from one pair to another need not be in the first list of either pair. steadyMu is the
	// innermost lock: a goroutine may lock it while it holds mu or the cluster's mu, and must not lock
	// another lock while it holds it.
	steadyMu sync.Mutex
	steady   map[api.Key][]pair

	newest atomic.Int64 // the highest revision of a version that the handler received

	mu   sync.Mutex // a goroutine that holds mu may lock the cluster's mu
	seen map[api.Key]last
	// due maps keys to version IDs. The handler must sync soon after it has received these versions,
	// or later versions of the same keys. Received keys are removed from due. due is nil until the
	// informer has synced.
	due  map[api.Key]int
	done time.Duration // when due became empty
	// the number of keys of due whose objects ended before the handler received them
	went  int
	said  bool // HasSynced has returned true
	ended bool

	resyncs []resync // the resyncs since countResyncs
	quiet   bool     // only resyncs were received since countResyncs
}

// resync is the delivery of one object by a resync.
type resync struct {
	key api.Key
	at  time.Duration
}

// last is the last representation of a key that a handler or reader received. gone is true if the
// object was deleted after that.
type last struct {
	rep  api.Representation
	gone bool
}

// tell receives an event. It checks the event, and then blocks as long as the spec says, or until
// ctx ends.
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
	h.reads(e)
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

// reads reads the informer during an event. The informer must have the state of the event or a
// later one: a controller that has received a version of a relist reads every other version of it.
func (h *handler) reads(e event) {
	if !h.client.informer.HasSynced() || !h.run.readsWhole(h.client) {
		return
	}
	if e.new.rep.Version != nil {
		h.newest.Store(max(h.newest.Load(), e.new.rep.Version.Revision))
	}
	v := h.client.informer.Read(false, func(format string, args ...any) { h.wrong("read", format, args...) })
	h.run.relistIsWhole(h.client, v, h.newest.Load())
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

// check compares an event with the events that the handler received before.
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
			if !h.endsUnknown(e, was, known) {
				h.wrong("order", "Deleted %v, but it has nothing", e.old)
			}
			return
		}
		if e.final && (e.old.rep.Version.ID >= was.rep.Version.ID || h.run.world.goesBack() || h.run.unordered) {
			// A DELETED event contains the final state in the current schema. The handler may not have
			// received that state before. In an unordered world it may also be the end of an earlier object.
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

// endsUnknown reports whether a DELETED event of an object that the handler did not have may reach
// it, as in client-go: the drop-in delivers such an event, unless it repeats one (was).
func (h *handler) endsUnknown(e event, was last, known bool) bool {
	return e.final && h.client.spec.Runner == DropIn &&
		(!known || e.old.rep.Version.ID > was.rep.Version.ID || h.toldAsSent() || h.run.world.goesBack() || h.run.unordered)
}

// toldAsSent reports whether the informer delivers repeated events like new ones, as client-go
// does. The drop-in may do so if the resourceVersions of objects do not always increase. It then
// compares objects by content, and the same object has different content in an event and in a list.
func (h *handler) toldAsSent() bool { return h.client.spec.takesAsSent(h.run.world) }

func (c ClientSpec) takesAsSent(w *World) bool {
	return c.returned() && (w.repeats() || w.opaque() || w.goesBack())
}

// later checks that the handler may receive a representation (now) after the last one of the same
// key (was).
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

// late checks that the handler syncs soon after it has received all objects that the informer
// stored when the informer synced. The handler must have received each object in the stored version
// or a later one. An older version does not suffice: the watch of one selector may send it, and the
// first list of another selector, which ends later, contains a newer version.
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

// backlog returns how long the handler may need for the events before its sync. These include the
// events of keys in due whose objects ended before the handler received them. If the scope has
// several pairs, it counts all changes, because one watch may send events until the first list of
// another pair ends. It also counts all changes if a server never ends its initial events.
func (h *handler) backlog() time.Duration {
	n, pairs := 1+h.went, len(h.scope.pairs())
	if pairs > 1 || h.client.spec.Mode == "watchlist" && slices.ContainsFunc(h.run.world.Servers, func(s api.Spec) bool { return s.Old }) {
		h.run.cluster.Do(func(hist *api.History) {
			for _, e := range hist.Eras() { // events from before a restore also delay a slow handler
				n += pairs * int(e.Head()-e.Base)
			}
		})
	}
	return h.spec.Delay * time.Duration(n)
}

// remove removes the handler. After that, it must not receive events.
func (h *handler) remove() {
	if h.reg == nil {
		return
	}
	h.reg.Remove()
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
}

// If the handler has synced, synced checks that it has received every key in steady.
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

// outdated returns versions in the informer's first lists. It returns a version if the handler
// should have received it, and has received neither it nor a later version of the key. It considers
// only keys in steady. The caller must hold h.mu.
func (h *handler) outdated() (all []*api.Version) {
	if h.run.world.goesBack() || h.run.maySyncOld(h.client) {
		return nil // the informer may sync with a later list that is older
	}
	if h.run.world.Unordered() {
		return nil // the last event of an object may contain an older state
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

// missing returns the keys in steady that the handler has not received, and removes them from
// steady. The caller must hold h.mu.
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

// atRest compares the objects that the handler has received with the objects in the informer's
// store (want), and reports differences.
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
