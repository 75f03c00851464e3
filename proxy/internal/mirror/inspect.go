package mirror

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Inspect returns a description of each resource, in the order of their full names.
func (m *Mirror) Inspect() []registry.ProxyResource {
	all := []registry.ProxyResource{}
	for _, res := range m.All() {
		all = append(all, res.inspect())
	}
	slices.SortFunc(all, func(a, b registry.ProxyResource) int { return cmp.Compare(a.FullName, b.FullName) })
	return all
}

// Objects returns the objects of the resource with the given name or full name, and reports whether
// the resource is cached.
func (m *Mirror) Objects(name string) (registry.ProxyObjects, bool) {
	all := m.byPreference()
	for _, nameOf := range []func(*Resource) string{(*Resource).fullName, (*Resource).name} {
		for _, res := range all {
			if s := res.Serving(); s != nil && nameOf(res) == name {
				return s.inspect(), true
			}
		}
	}
	return registry.ProxyObjects{}, false
}

func (res *Resource) inspect() registry.ProxyResource {
	st := res.State()
	r := registry.ProxyResource{
		Name: res.name(), FullName: res.fullName(), Version: res.GVR().Version, State: st.Standing().String(), Configured: !res.onDemand,
		Error: st.Err, Events: res.FeedStats.Events.Load(), Sessions: st.Sessions, Watchers: res.Watching(),
	}
	if at := res.lastRead.Load(); at != 0 {
		t := time.Unix(0, at)
		r.LastRead = &t
	}
	s := st.Session
	if s == nil {
		return r
	}
	status := s.Reflector().Status()
	r.Reflector, r.Transitions, r.Relists = &status, s.Reflector().Transitions(), s.Reflector().Relists()
	r.Objects, r.ResourceVersion, r.Memory = s.Store().Len(), s.Store().ResourceVersion(), s.Store().Memory()
	if at := s.LastHeard(); !at.IsZero() && at.Unix() > 0 {
		r.Heard = &at
	}
	cache := s.Cache().Stats()
	r.Gets, r.Sent, r.Lag, r.BacklogBytes = cache.Gets, cache.InitialEvents+cache.Events+cache.Bookmarks, cache.Lag, cache.BacklogBytes
	r.CaughtUp, r.Stalled = cache.CaughtUp, cache.Stalled
	for _, x := range cache.Indexes {
		r.ListsServed += x.Lists
	}
	return r
}

// fullName returns the resource's name with its version. The core group has only one version, which
// is left out.
func (res *Resource) fullName() string {
	if res.GVR().Group == "" || res.GVR().Version == "" {
		return res.name()
	}
	return res.GVR().Resource + "." + res.GVR().Version + "." + res.GVR().Group
}

func (s *Session) inspect() registry.ProxyObjects {
	kind := s.Info.GroupVersionKind()
	return registry.ProxyObjects{Store: s.Store(), Kind: wire.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, Decode: s.decode}
}

func (s *Session) decode(o *store.Object) (any, error) {
	raw, err := o.AppendRaw(nil)
	if err != nil {
		return nil, err
	}
	return codec.OfStruct(s.Info.Type).Decode(raw, nil)
}
