package sim

import (
	"slices"
	"strconv"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// await starts a goroutine that waits until a client's informer has stored every write up to now.
// The goroutine then reads the informer and checks that no such write is missing. await is a no-op
// if the informer cannot wait for a resourceVersion, or if resourceVersions cannot be compared.
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
			return // in another era, rev is a different state
		}
		r.cluster.Do(func(h *api.History) {
			another := func(resourceVersion string) bool { return newer(resourceVersion, era.Head()) }
			if h.Era() != era || another(v.resourceVersion) || slices.ContainsFunc(of, another) || v.holdsOfAnother(era, r.world.besieged()) {
				return // the store still contains resourceVersions of another era
			}
			r.hasReached("await", c, c.spec.Scope, era, rev, v.objects)
		})
	})
}

// hasReached checks that objects contains every write to the scope up to revision rev of era. The
// objects were read after the client had waited for rev. The caller must hold the cluster's mu.
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

// holdsOfAnother reports whether the view contains an object of an earlier era whose revision is
// above the newest revision of the given era. That is possible if an informer has several
// selectors, and so several reflectors: one reflector may have listed in the given era while
// another still examines its server. If besieged is true, an object of an earlier era counts at any
// revision. In such a world, many faults may make the examination so long that the given era
// reaches the revisions of the earlier era.
func (v *view) holdsOfAnother(era *api.Era, besieged bool) bool {
	for _, rep := range v.objects {
		if !era.Has(rep.Version) && (besieged || rep.Version.Revision > era.Head()) {
			return true
		}
	}
	return false
}

// newer reports whether a resourceVersion is above revision. It does not use package
// resourceversion, because the model must not use the code under test.
func newer(resourceVersion string, revision int64) bool {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	return err == nil && n > revision
}
