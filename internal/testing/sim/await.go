package sim

import (
	"slices"
	"strconv"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// await starts a goroutine that waits until a client's informer holds everything that has been
// written by now, then reads it, and checks that nothing is missing. It does nothing if the
// informer cannot wait, or if resourceVersions cannot be compared.
func (r *run) await(c *client) {
	w, ok := c.informer.(waiter)
	if !ok || r.world.Scheme != api.Integers {
		return
	}
	var era *api.Era
	var rev int64
	r.cluster.Do(func(h *api.History) { era, rev = h.Era(), h.Era().Head() })
	r.waits.Go(func() {
		if w.WaitForResourceVersion(r.over, era.Format(rev)) != nil {
			return
		}
		r.yield()
		r.reads.Add(1)
		of := w.ResourceVersions()
		v := c.informer.Read(false, func(format string, args ...any) { r.violate("read", c, format, args...) })
		if !r.cluster.UpToDate(c.api) {
			return // the number meant something else when it was listed
		}
		r.cluster.Do(func(h *api.History) {
			another := func(resourceVersion string) bool { return newer(resourceVersion, era.Head()) }
			if h.Era() != era || another(v.resourceVersion) || slices.ContainsFunc(of, another) || v.holdsOfAnother(era, r.world.besieged()) {
				return // or it means something else still, while the server is examined
			}
			r.hasReached("await", c, c.spec.Scope, era, rev, v.objects)
		})
	})
}

// hasReached checks that objects of a scope, which were read after a wait for a revision of an era,
// have every write up to it. The caller holds the cluster's lock.
func (r *run) hasReached(rule string, c *client, s Scope, era *api.Era, rev int64, objects map[api.Key]api.Representation) {
	for _, want := range era.At(rev) {
		got, ok := objects[want.Key]
		gone, _ := s.ceases(era, want)
		if s.matches(want) && (!ok && gone == 0 || ok && got.Version.ID < want.ID) {
			r.violate(rule, c, "has waited for %d, but holds %v in place of %v", rev, got.Version, want)
		}
	}
	for key, got := range objects {
		if now := era.Get(rev, key); now == nil && got.Version.Revision <= rev {
			r.violate(rule, c, "has waited for %d, but holds %v, which was gone by then", rev, got.Version)
		}
	}
}

// holdsOfAnother reports whether an object is held that belongs to another past, with a
// resourceVersion beyond era. Of the reflectors of several selectors one may have come to era while
// another one still examines its server. In a siege that may take until resourceVersions have come
// again, so then any object of another past counts.
func (v *view) holdsOfAnother(era *api.Era, besieged bool) bool {
	for _, rep := range v.objects {
		if !era.Has(rep.Version) && (besieged || rep.Version.Revision > era.Head()) {
			return true
		}
	}
	return false
}

// newer reports whether a resourceVersion is newer than revision. It compares by itself: the model
// knows nothing of the code under test.
func newer(resourceVersion string, revision int64) bool {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	return err == nil && n > revision
}
