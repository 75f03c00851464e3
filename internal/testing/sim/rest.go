package sim

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// patience returns how long an informer may take to recover after the last fault. If faults never
// end, it recovers by a LIST, after several requests that may each hang for more than a minute. A
// chain may take longer, because its replicas recover first and its informer after them.
func (w *World) patience() time.Duration {
	switch {
	case w.besieged():
		// The informer may have to fail with each fault in turn.
		return 2*time.Hour + time.Duration(len(w.Steps))*2*time.Minute
	case w.trickles():
		// Each step may need a separate WATCH.
		return 15*time.Minute + time.Duration(len(w.Steps))*2*time.Minute
	case !w.lasting():
		return 5 * time.Minute
	case w.Clients[0].Runner == Chain:
		return 40 * time.Minute
	}
	return 25 * time.Minute
}

// trickles reports whether a fault may let each watch send only one event before it stalls or
// breaks.
func (w *World) trickles() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool {
		return s.Op == Fault && s.Rule.Forever() && s.Rule.Ask&api.AskWatches != 0 && s.Rule.Blocks() && !s.Rule.BlocksAlways()
	})
}

// lasting reports whether a fault never ends. It ignores Pieces, which prevents nothing.
func (w *World) lasting() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Fault && s.Rule.Forever() && s.Rule.Effect != api.Pieces })
}

// besieged reports whether more than two faults never end, so that only a few kinds of requests
// work.
func (w *World) besieged() bool {
	n := 0
	for _, s := range w.Steps {
		if s.Op == Fault && s.Rule.Forever() && s.Rule.Blocks() {
			n++
		}
	}
	return n > 2
}

// cooling is long enough for decoded objects to become idle and be dropped after the last read, and
// for every watch to receive a bookmark.
const cooling = 3 * time.Minute

// troubleVisible is how long Err may remain nil while a fault blocks the informer, because a LIST
// that has started may still succeed.
const troubleVisible = 2 * time.Minute

// problem is a difference from the state that the checks require at rest. It becomes a violation if
// it remains.
type problem struct {
	rule   string
	client *client
	text   string
	args   []any
}

// rest waits until there are no problems, and then until all clients have been idle for a while.
// After that, it checks that there are still no problems, and that informers have released
// unnecessary data. Finally, if the world has changes that clients cannot detect, rest forces all
// clients to list again, and repeats the checks.
func (r *run) rest() {
	if !r.settle(false) {
		return
	}
	r.cool()
	for _, c := range r.clients {
		if r.expect(c).current {
			for _, h := range c.handlers {
				if c.spec.Runner != ClientGo {
					h.resynced(cooling)
				}
			}
			c.informer.Rest(func(format string, args ...any) { r.violate("rest", c, format, args...) })
		}
	}
	if !r.settle(false) || !r.forced() {
		return
	}
	if r.logging {
		r.logf("--- all clients must list again")
	}
	r.cluster.Do(func(h *api.History) { h.Distinguish(r.now()) })
	r.cluster.Shrink()
	for i := range r.world.Servers {
		r.cluster.CutWatches(i)
	}
	r.settle(true)
}

// cool waits for the duration of the constant cooling, and changes nothing. If a handler receives
// an event or a reader reads in that time, cool waits again, up to four times in total, because a
// client may detect some faults late.
func (r *run) cool() {
	for disturbed, times := true, 0; disturbed && times < 4; times++ {
		for _, c := range r.clients {
			for _, h := range c.handlers {
				h.countResyncs()
			}
		}
		reads := r.reads.Load()
		time.Sleep(cooling)
		synctest.Wait()
		disturbed = r.reads.Load() != reads || slices.ContainsFunc(r.clients, func(c *client) bool { return slices.ContainsFunc(c.handlers, (*handler).stirred) })
	}
}

// forced reports whether the world has changes that a client may detect only when it lists again.
func (r *run) forced() bool {
	return slices.ContainsFunc(r.world.Steps, func(s Step) bool { return s.Op == Restore || s.Op == Replace || s.Op == Schema })
}

// settle waits until there are no problems. It returns false if a check fails, or if problems
// remain after World.patience; then it reports them as violations.
func (r *run) settle(relisted bool) bool {
	began := r.now()
	wait := 100 * time.Millisecond
	for {
		synctest.Wait()
		r.look()
		problems := r.problems(relisted)
		if r.failed() {
			return false
		}
		if len(problems) == 0 {
			r.out.Rest = max(r.out.Rest, r.now()-began)
			return true
		}
		if r.now()-began > r.world.patience() {
			for _, p := range problems {
				r.violate(p.rule, p.client, p.text, p.args...)
			}
			return false
		}
		time.Sleep(wait)
		wait = min(wait*3/2, 10*time.Second)
	}
}

// problems returns the current differences from the required state. If relisted is true, all
// clients have listed again, so no client may have an object in an old schema.
func (r *run) problems(relisted bool) []problem {
	var all []problem
	for _, c := range r.clients {
		add := func(rule, text string, args ...any) { all = append(all, problem{rule, c, text, args}) }
		v := r.readClient(c, true)
		e := r.expect(c)
		if e.heals && !r.unordered && (relisted || !r.cluster.Tricked(c.api)) {
			r.compare(c, v, relisted, add)
		}
		if e.heals && !c.informer.HasSynced() {
			add("never-synced", "has not synced")
		}
		err, supported := c.informer.Err()
		if supported && e.current && err != nil {
			add("err", "all is well, but Err is %v", err)
		}
		if err != nil {
			c.troubled = r.now()
		}
		if supported && (e.blocked || e.unlisted && !c.informer.HasSynced()) && r.now()-c.troubled > troubleVisible {
			add("err-nil", "something stands in the way for good, but Err has been nil since %v", c.troubled)
		}
		if at := r.head(); e.progress && v.resourceVersion != "" && v.resourceVersion != at && !r.cluster.Tricked(c.api) {
			add("progress", "is at %s; the servers are at %s", v.resourceVersion, at)
		}
		for _, h := range c.handlers {
			h.atRest(v.objects, e.heals, add)
		}
	}
	return all
}

// compare reports the differences between a client's objects and the servers' objects.
func (r *run) compare(c *client, v view, relisted bool, add func(string, string, ...any)) {
	oldest, schema := r.cluster.Schemas(c.api)
	if relisted {
		oldest = schema
	}
	want := r.want(c)
	for key, version := range want {
		switch got, ok := v.objects[key]; {
		case !ok:
			add("stale", "%v is missing", version)
		case got.Version != version:
			add("stale", "holds %v in place of %v", got, version)
		case got.Schema < oldest:
			add("stale-bytes", "holds %v of schema %d; it was listed with %d", got, got.Schema, oldest)
		}
	}
	for key, rep := range v.objects {
		if want[key] == nil {
			add("stale", "holds %v, which is not there", rep)
		}
	}
}

// head returns the newest resourceVersion of the history.
func (r *run) head() (rv string) {
	r.cluster.Do(func(h *api.History) { rv = h.Era().Format(h.Era().Head()) })
	return rv
}

// want returns the objects that a client's store should contain, by key.
func (r *run) want(c *client) map[api.Key]*api.Version {
	want := map[api.Key]*api.Version{}
	r.cluster.Do(func(h *api.History) {
		e := h.Era()
		for _, v := range e.At(e.Head()) {
			if c.spec.Scope.matches(v) {
				want[v.Key] = v
			}
		}
	})
	return want
}
