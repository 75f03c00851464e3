package sim

import (
	"slices"
	"time"
)

// control returns the client with client-go's informer, with which the others are compared. It
// returns nil if the world has no such client, or no other client.
func (r *run) control() *client {
	i := slices.IndexFunc(r.clients, func(c *client) bool { return c.spec.Runner == ClientGo })
	if i < 0 || !slices.ContainsFunc(r.clients, func(c *client) bool { return c.spec.Runner != ClientGo }) {
		return nil
	}
	return r.clients[i]
}

const (
	// unwatchedSlack is how much longer than client-go's informer an informer may be without a WATCH.
	// It is shorter than the first wait after a failure.
	unwatchedSlack = 300 * time.Millisecond
	// listsEvery is the time after which an informer may list because its WATCHes send nothing.
	// client-go's informer never lists for that reason.
	listsEvery = 50 * time.Minute
	// listsWithoutBookmarks replaces listsEvery if the servers send no bookmarks. A busy server whose
	// resource does not change then looks like a network that loses events. It is three times the 90 s
	// after which an informer examines a silent WATCH.
	listsWithoutBookmarks = 270 * time.Second
	// waitBeforeList is how long an informer may be without a WATCH before it sends such a list. It is
	// the first wait after a failure.
	waitBeforeList = time.Second
)

// unwatched compares the informers with client-go's in the same world. It checks that none of them
// is without a WATCH for longer, or lists more often, than client-go's informer plus the allowances
// above.
func (r *run) unwatched() {
	control := r.control()
	if control == nil {
		return
	}
	most, lists := control.api.WithoutWatch()+unwatchedSlack, control.api.Lists()
	// client-go lists again when WATCHes fail; the informer may send small lists instead
	if lists > 1 {
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
