package proxy

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// inspected is a server as the page of package debug sees it.
type inspected struct{ *Server }

var _ registry.Proxy = inspected{}

// State implements registry.Proxy.
func (s inspected) State() registry.ProxyState {
	st := &s.resources.stats
	budget, used, _ := s.resources.budget.usage()
	state := registry.ProxyState{
		Connections: s.connected(), LongRunning: s.seats.Watches.Count(), WatchBytes: s.seats.Watches.Memory.Used(),
		ForwardedWatches: s.forwardedWatches.count(),
		Lists:            st.Lists.Load(), Watches: st.Watches.Load(), Received: st.WireBytes.Load(),
		Forwarded: int64(s.upstream.requests.Load()), Unanswered: int64(s.upstream.failures.Load()),
		BudgetUsed: used, Budget: budget, Revoked: int64(s.revoked.Load()),
		Resources: []registry.ProxyResource{},
	}
	for _, res := range s.resources.all() {
		state.Resources = append(state.Resources, res.inspect())
	}
	slices.SortFunc(state.Resources, func(a, b registry.ProxyResource) int { return cmp.Compare(a.FullName, b.FullName) })
	state.Watchers, state.WatchersMore = s.servedWatches.groups()
	return state
}

// inspect returns how the resource is doing.
func (res *resource) inspect() registry.ProxyResource {
	st := res.state()
	r := registry.ProxyResource{
		Name: res.name(), FullName: res.fullName(), Version: res.gvr.Version, State: st.standing().String(), Configured: !res.onDemand,
		Error: st.err, Events: res.feedStats.Events.Load(), Sessions: st.sessions, Watchers: int(res.watchers.Load()),
	}
	if at := res.lastRead.Load(); at != 0 {
		t := time.Unix(0, at)
		r.LastRead = &t
	}
	s := st.session
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

// fullName returns the name with the version, which the core group has only one of.
func (res *resource) fullName() string {
	if res.gvr.Group == "" || res.gvr.Version == "" {
		return res.name()
	}
	return res.gvr.Resource + "." + res.gvr.Version + "." + res.gvr.Group
}

// Objects implements registry.Proxy.
func (s inspected) Objects(name string) (registry.ProxyObjects, bool) {
	all := s.resources.byPreference()
	for _, nameOf := range []func(*resource) string{(*resource).fullName, (*resource).name} {
		for _, res := range all {
			if session := res.serving(); session != nil && nameOf(res) == name {
				return session.inspect(), true
			}
		}
	}
	return registry.ProxyObjects{}, false
}

// inspect returns the objects of the session.
func (s *session) inspect() registry.ProxyObjects {
	kind := s.info.GroupVersionKind()
	return registry.ProxyObjects{Store: s.Store(), Kind: wire.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}, Decode: s.decode}
}

// decode returns the value of an object.
func (s *session) decode(o *store.Object) (any, error) {
	raw, err := o.AppendRaw(nil)
	if err != nil {
		return nil, err
	}
	return codec.OfStruct(s.info.Type).Decode(raw)
}
