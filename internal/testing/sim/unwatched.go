package sim

import (
	"slices"
	"time"
)

// control returns client-go's informer in a world in which another one is measured by it, or nil.
func (r *run) control() *client {
	i := slices.IndexFunc(r.clients, func(c *client) bool { return c.spec.Runner == ClientGo })
	if i < 0 || !slices.ContainsFunc(r.clients, func(c *client) bool { return c.spec.Runner != ClientGo }) {
		return nil
	}
	return r.clients[i]
}

const (
	// unwatchedSlack is how much longer than client-go an informer may be without a WATCH: less than
	// the first wait after a failure takes.
	unwatchedSlack = 300 * time.Millisecond
	// listsEvery is how often an informer may list whose WATCHes bring nothing. client-go does not.
	listsEvery = 50 * time.Minute
	// listsWithoutBookmarks is the same where servers send no bookmarks, so that a busy server and a
	// quiet resource look like a network that swallows events: three times 90 s.
	listsWithoutBookmarks = 270 * time.Second
	// waitBeforeList is how long an informer may wait, without a WATCH, before such a list: the first
	// wait after a failure.
	waitBeforeList = time.Second
)

// unwatched compares informers with client-go's in the same world: each is without a WATCH for no
// longer, and lists no more often.
func (r *run) unwatched() {
	control := r.control()
	if control == nil {
		return
	}
	most, lists := control.api.WithoutWatch()+unwatchedSlack, control.api.Lists()
	if lists > 1 { // for want of WATCHes. These lists are small, so that they cost little
		lists *= 4
	}
	if r.world.Servers[0].Bookmarks < 0 {
		more := int(r.now() / listsWithoutBookmarks)
		lists += more
		most += time.Duration(more) * waitBeforeList
	} else {
		lists += int(r.now() / listsEvery)
	}
	for _, c := range r.clients {
		if c == control {
			continue
		}
		if without := c.api.WithoutWatch(); without > most {
			r.violate("unwatched", c, "was without a WATCH for %v in %v; client-go for %v", without, r.now(), control.api.WithoutWatch())
		}
		if n := c.api.Lists(); n > lists {
			r.violate("lists", c, "has listed %d times in %v; client-go may %d times", n, r.now(), lists)
		}
	}
}
