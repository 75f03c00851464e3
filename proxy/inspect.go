package proxy

import (
	"cmp"
	"container/list"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/request"
)

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

// servedWatches is the list of the watches that are served from the cache, the newest first. It is
// safe for concurrent use. A watch takes one entry, for as long as its request lasts.
type servedWatches struct {
	mu  sync.Mutex
	all list.List // of *servedWatch
}

// servedWatch is one of them. Its texts belong to the request, which lives as long.
type servedWatch struct {
	who   user.Info
	agent string
	read  *request.Request
	since time.Time
}

// add adds a watch until leave is called.
func (l *servedWatches) add(r *http.Request, rq *request.Request, who user.Info) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := l.all.PushFront(&servedWatch{who: who, agent: r.UserAgent(), read: rq, since: time.Now()})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all.Remove(place)
	}
}

const (
	// maxVisited bounds how many watches are looked at, since the list is locked meanwhile.
	maxVisited = 10_000
	// maxGroups bounds how many groups are returned.
	maxGroups = 50
)

// groups returns the newest watches in groups of those that are alike, the largest first, and how
// many groups are left out.
func (l *servedWatches) groups() (all []registry.ProxyWatchers, more int) {
	all = []registry.ProxyWatchers{}
	for _, g := range l.count() {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b registry.ProxyWatchers) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Since.Compare(b.Since), cmp.Compare(a.User, b.User), cmp.Compare(a.Resource, b.Resource))
	})
	more = max(len(all)-maxGroups, 0)
	return all[:len(all)-more], more
}

// count counts watches that are alike.
func (l *servedWatches) count() map[registry.ProxyWatchers]*registry.ProxyWatchers {
	groups := map[registry.ProxyWatchers]*registry.ProxyWatchers{}
	l.mu.Lock()
	defer l.mu.Unlock()
	visited := 0
	for e := l.all.Front(); e != nil && visited < maxVisited; e = e.Next() {
		visited++
		w := e.Value.(*servedWatch)
		key := w.group()
		g := groups[key]
		if g == nil {
			first := key
			g = &first
			groups[key] = g
		}
		g.Count++
		g.Since = w.since // they come from the newest on
	}
	return groups
}

// group returns what watches that are alike have in common.
func (w *servedWatch) group() registry.ProxyWatchers {
	resource := w.read.Resource
	if w.read.Group != "" {
		resource += "." + w.read.Group
	}
	name := ""
	if w.who != nil {
		name = w.who.GetName()
	}
	return registry.ProxyWatchers{
		User: name, Agent: w.agent, Resource: resource, Namespace: w.read.Namespace,
		Selector: strings.Trim(w.read.LabelText+","+w.read.FieldText, ","),
	}
}
