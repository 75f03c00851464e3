package proxy

import "github.com/weirproject/weir/internal/core/registry"

// inspected is a server as the page of package debug sees it.
type inspected struct{ *Server }

var _ registry.Proxy = inspected{}

// State implements registry.Proxy.
func (s inspected) State() registry.ProxyState {
	st := &s.mirror.Stats
	budget, used, _ := s.mirror.Budget.Usage()
	state := registry.ProxyState{
		Connections: s.connected(), LongRunning: s.seats.Watches.Count(), WatchBytes: s.seats.Watches.Memory.Used(),
		ForwardedWatches: s.forwardedWatches.count(),
		Lists:            st.Lists.Load(), Watches: st.Watches.Load(), Received: st.WireBytes.Load(),
		Forwarded: int64(s.upstream.requests.Load()), Unanswered: int64(s.upstream.failures.Load()),
		BudgetUsed: used, Budget: budget, Revoked: int64(s.revoked.Load()),
		Resources: s.mirror.Inspect(),
	}
	state.Watchers, state.WatchersMore = s.servedWatches.groups()
	return state
}

// Objects implements registry.Proxy.
func (s inspected) Objects(name string) (registry.ProxyObjects, bool) { return s.mirror.Objects(name) }
