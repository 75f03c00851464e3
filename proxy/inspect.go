package proxy

import (
	"cmp"
	"container/list"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/seats"
)

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
	for reason, text := range forTexts {
		state.ForwardedFor = append(state.ForwardedFor, registry.ProxyCount{Name: text, Count: s.forwardedFor[reason].Load()})
	}
	for n, pool := range []*seats.Pool{s.seats.Reads, s.seats.Starts, s.seats.Writes} {
		taken, waiting := pool.Counts()
		for level := range seats.Levels {
			state.Seats = append(state.Seats, registry.ProxySeats{Of: [...]string{"reads", "starts of watches", "writes"}[n], Level: level.String(), Taken: taken[level], Waiting: waiting[level]})
		}
	}
	return state
}

// Reasons why requests are forwarded to the upstream, in addition to those of package mirror.
const (
	forHeaders = mirror.Reasons + iota
	forUnallowed
	forUnaudited
	forReasons
)

// forTexts describes the requests that were forwarded for each reason. NoReason: the request is not
// a read for the cache.
var forTexts = [forReasons]string{
	mirror.NoReason:    "writes, and requests that are not plain reads of objects",
	forHeaders:         "reads that only the upstream may answer, because they impersonate, upgrade the connection, or come from a browser or curl",
	mirror.NotCached:   "reads of resources that are not cached, not yet, or perhaps deleted",
	mirror.Cheap:       "consistent reads that cost the upstream no more than a proof that the cache is current, or that --consistency forwards",
	mirror.Unsupported: "reads in a form that the cache lacks, such as Tables, or of a version that it no longer has",
	mirror.Stale:       "reads for which the cache was not current in time",
	forUnallowed:       "reads that no review has allowed, so that the upstream decides",
	forUnaudited:       "reads that the audit log could not record",
}

// Objects implements registry.Proxy.
func (s inspected) Objects(name string) (registry.ProxyObjects, bool) { return s.mirror.Objects(name) }

// servedWatches is the list of the watches that the proxy serves from the cache, the newest first.
// It is safe for concurrent use. Each watch has one entry until its request ends.
type servedWatches struct {
	mu  sync.Mutex
	all list.List // of *servedWatch
}

// servedWatch is an entry of servedWatches. Its strings share memory with the request, which is in
// memory as long as the entry.
type servedWatch struct {
	who   user.Info
	agent string
	read  *request.Request
	since time.Time
}

// add adds a watch. The caller must call leave when the watch ends.
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
	// maxVisited bounds how many watches the method count examines, because the list is locked
	// meanwhile.
	maxVisited = 10_000
	// maxGroups bounds how many groups the method groups returns.
	maxGroups = 50
)

// groups groups the newest watches by user, agent, resource, namespace and selector. It returns the
// largest groups, in descending order of size, and the number of groups that it leaves out.
func (l *servedWatches) groups() (all []registry.ProxyWatchers, more int) {
	all = slices.AppendSeq([]registry.ProxyWatchers{}, maps.Values(l.count()))
	slices.SortFunc(all, func(a, b registry.ProxyWatchers) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Since.Compare(b.Since), cmp.Compare(a.User, b.User), cmp.Compare(a.Resource, b.Resource))
	})
	more = max(len(all)-maxGroups, 0)
	return all[:len(all)-more], more
}

// count groups the newest watches, up to maxVisited, and counts the watches of each group.
func (l *servedWatches) count() map[registry.ProxyWatchers]registry.ProxyWatchers {
	groups := map[registry.ProxyWatchers]registry.ProxyWatchers{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, n := l.all.Front(), 0; e != nil && n < maxVisited; e, n = e.Next(), n+1 {
		w := e.Value.(*servedWatch)
		key := w.group()
		g := key
		// The list starts with the newest, so the last visited is the oldest.
		g.Count, g.Since = groups[key].Count+1, w.since
		groups[key] = g
	}
	return groups
}

// group returns the group of the watch, without Count and Since.
func (w *servedWatch) group() registry.ProxyWatchers {
	return registry.ProxyWatchers{
		User: w.who.GetName(), Agent: w.agent, Resource: w.read.GVR().GroupResource().String(), Namespace: w.read.Namespace,
		Selector: strings.Trim(w.read.LabelText+","+w.read.FieldText, ","),
	}
}
