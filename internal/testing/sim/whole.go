package sim

import (
	"slices"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// relistIsWhole checks that a read of a synced client returned the state that the servers had at
// one revision, at since or later: readers see no mixture of the states before and after a relist,
// and a relist that breaks off changes nothing.
func (r *run) relistIsWhole(c *client, v view, since int64) {
	if !r.readsWhole(c) {
		return
	}
	r.cluster.Do(func(h *api.History) {
		e := h.Era()
		differ := map[api.Key]bool{}
		compare := func(key api.Key, is *api.Version) {
			if !c.spec.Scope.matches(is) {
				is = nil
			}
			if v.objects[key].Version == is {
				delete(differ, key)
			} else {
				differ[key] = true
			}
		}
		since = max(since, e.Base)
		for key := range v.objects {
			compare(key, e.Get(since, key))
		}
		for _, is := range e.At(since) {
			compare(is.Key, is)
		}
		for _, ch := range e.Since(since, e.Head()) {
			if len(differ) == 0 {
				return
			}
			if ch.Old != nil || ch.New != nil {
				compare(ch.Key(), ch.New)
			}
		}
		if len(differ) > 0 {
			var versions []*api.Version
			for _, rep := range v.objects {
				versions = append(versions, rep.Version)
			}
			r.violate("relist-is-whole", c, "holds %v, which was no state at %d or later", versions, since)
		}
	})
}

// readsWhole reports whether each state of the client's store is a state of the servers. That is
// not required in these cases: the client merges watches; its relists exceed the log; it reads from
// watch caches, which coalesce changes; it cannot distinguish old events from new ones; its servers
// are restored; or it may sync with a list that is older than some of its objects.
func (r *run) readsWhole(c *client) bool {
	return len(c.spec.Scope.pairs()) == 1 && c.spec.LogBytes == 0 && c.spec.Runner != Chain && !r.unordered && !r.world.goesBack() &&
		!c.spec.takesAsSent(r.world) && !r.maySyncOld(c) && !slices.ContainsFunc(r.world.Servers, func(s api.Spec) bool { return s.Stale })
}
