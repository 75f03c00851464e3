package sim

import (
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/sim/api"
	"github.com/weirproject/weir/internal/sim/etcd"
)

// patience is how long after the last fault everything must be as it should be.
const patience = 15 * time.Minute

// cooling is how long after the last read nothing is held decoded any more, and every watch has had a bookmark.
const cooling = 3 * time.Minute

// problem is something that is not yet as it should be.
type problem struct {
	rule   string
	client *client
	text   string
	args   []any
}

// rest waits until everything is as it should be, and then checks what must hold when nothing happens.
func (r *run) rest() {
	began := r.now()
	wait := 100 * time.Millisecond
	for {
		synctest.Wait()
		r.look()
		problems := r.problems()
		if len(problems) == 0 || r.failed() {
			break
		}
		if r.now()-began > patience {
			for _, p := range problems {
				r.violate(p.rule, p.client, p.text, p.args...)
			}
			return
		}
		time.Sleep(wait)
		wait = min(wait*3/2, 10*time.Second)
	}
	r.out.Rest = r.now() - began
	if r.failed() {
		return
	}
	time.Sleep(cooling)
	synctest.Wait()
	for _, c := range r.clients {
		r.cold(c)
		r.out.Requests += c.api.Requests()
	}
}

// problems are what is not as it should be now.
func (r *run) problems() []problem {
	var all []problem
	for _, c := range r.clients {
		add := func(rule, text string, args ...any) { all = append(all, problem{rule, c, text, args}) }
		want := r.want(c)
		v := r.readClient(c)
		for key, f := range want {
			if got, ok := v.objects[key]; !ok {
				add("stale", "%v is missing", f)
			} else if got != f {
				add("stale", "holds %v in place of %v", got, f)
			}
		}
		for key, f := range v.objects {
			if _, ok := want[key]; !ok {
				add("stale", "holds %v, which is not there", f)
			}
		}
		if !c.informer.HasSynced() {
			add("never-synced", "has not synced")
		}
		if err, known := c.informer.Err(); known && err != nil {
			add("err", "all is well, but Err is %v", err)
		}
		for _, h := range c.handlers {
			h.atRest(v.objects, add)
		}
	}
	return all
}

// want is what a client should hold.
func (r *run) want(c *client) map[etcd.Key]api.Form {
	want := map[etcd.Key]api.Form{}
	r.cluster.Do(func(h *etcd.History) {
		e := h.Era()
		for _, v := range e.At(e.Head()) {
			if c.spec.Scope.matches(v) {
				want[v.Key] = api.Form{Version: v}
			}
		}
	})
	return want
}

// cold checks a client for which nothing has happened for a while.
func (r *run) cold(c *client) {
	c.informer.Rest(func(format string, args ...any) { r.violate("rest", c, format, args...) })
	v := r.readClient(c)
	r.cluster.Do(func(h *etcd.History) {
		if want := h.Era().Format(h.Era().Head()); v.resourceVersion != "" && v.resourceVersion != want {
			r.violate("progress", c, "is at %s; the servers are at %s", v.resourceVersion, want)
		}
	})
}
