package debug

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// report contains the page's data at one moment.
type report struct {
	Time      time.Time  `json:"time"`
	Process   process    `json:"process"`
	Links     []Link     `json:"links,omitempty"`
	Informers []informer `json:"informers"` // those that need attention first, then by name
	Proxies   []proxy    `json:"proxies,omitempty"`
}

// row is what the page shows of an informer, or of a resource of a proxy, before the user opens it.
type row struct {
	ID string `json:"id"` // unique
	// Standing is healthy, syncing, or the kind of the first problem. For a resource of a proxy, it is
	// healthy or a ProxyResource's State.
	Standing string    `json:"standing"`
	Problems []problem `json:"problems,omitempty"` // in the order of kinds
	Memory   int64     `json:"totalBytes"`
	Series   []series  `json:"series,omitempty"` // nil unless open
}

type informer struct {
	row
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion,omitempty"` // "" until the server has sent an object
	// Kind is "" for metadata too, which does not state its object's kind.
	Kind     string    `json:"kind,omitempty"`
	Resource string    `json:"resource,omitempty"` // "" if unknown
	Objects  int       `json:"objects"`
	Heard    time.Time `json:"heard,omitzero"` // of the reflector that heard least recently
	Events   uint64    `json:"events"`         // of all handlers
	Lag      uint64    `json:"lag"`            // of the slowest handler

	// These fields are empty unless the informer is open.

	ResourceVersion string           `json:"resourceVersion,omitempty"`
	RawBytes        int64            `json:"rawBytes,omitempty"`
	MemoryBytes     map[string]int64 `json:"memoryBytes,omitempty"` // by purpose
	Requests        *requests        `json:"requests,omitempty"`
	// RelistsBy counts the relists by reason. It omits reasons that did not occur.
	RelistsBy  map[string]int   `json:"relistsBy,omitempty"`
	Reflectors []reflectorState `json:"reflectors,omitempty"`
	Handlers   []handlerState   `json:"handlers,omitempty"` // by name

	received int64 // bytes
}

type requests struct {
	Lists         int64 `json:"lists"`
	Watches       int64 `json:"watches"`
	ReceivedBytes int64 `json:"receivedBytes"`
	BodyBytes     int64 `json:"bodyBytes"`
}

type reflectorState struct {
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
	// ScopeUnknown is true if the informer does not know its namespace and selector: it is a drop-in
	// that cannot see the requests of its ListerWatcher.
	ScopeUnknown bool         `json:"scopeUnknown,omitempty"`
	Phase        string       `json:"phase"`
	Since        time.Time    `json:"since"`
	Mode         string       `json:"mode"`
	Synced       bool         `json:"synced"`
	Heard        time.Time    `json:"heard,omitzero"`
	CurrentAt    time.Time    `json:"currentAt,omitzero"`
	Error        string       `json:"error,omitempty"`
	LastError    string       `json:"lastError,omitempty"`
	LastErrorAt  time.Time    `json:"lastErrorAt,omitzero"`
	Attempts     int          `json:"attempts"`
	NextRetry    time.Time    `json:"nextRetry,omitzero"`
	Queued       bool         `json:"queued,omitempty"` // waits for permission to list
	Relists      int          `json:"relists"`
	InParts      int          `json:"relistsInParts,omitempty"` // changes exceeded LogBytes
	Transitions  []transition `json:"transitions"`              // the newest transitions, oldest first
	Listed       int64        `json:"listed"`
	Remaining    int64        `json:"remaining"` // -1: the server does not report it
	Unreadable   int          `json:"unreadable"`
}

// transition is a change of a reflector's phase or request.
type transition struct {
	Time   time.Time `json:"time"`
	After  string    `json:"after"` // what caused the transition, such as a response
	Error  string    `json:"error,omitempty"`
	Phase  string    `json:"phase"`            // the resulting phase
	Next   string    `json:"next,omitempty"`   // the next request or wait
	Reason string    `json:"reason,omitempty"` // reason for the next list
}

type handlerState struct {
	Name           string    `json:"name"`
	Synced         bool      `json:"synced"`
	Events         uint64    `json:"events"`
	Panics         uint64    `json:"panics"`
	Panicked       time.Time `json:"panicked,omitzero"` // the last time
	Lag            uint64    `json:"lag"`
	PendingKeys    int       `json:"pendingKeys"`
	BusySeconds    float64   `json:"busySeconds"`     // duration of the current call
	Doing          string    `json:"doing,omitempty"` // event type of the current call
	Key            string    `json:"key,omitempty"`   // object key of the current call
	Stack          string    `json:"stack,omitempty"` // of the current call, if it lasts too long
	LongestSeconds float64   `json:"longestSeconds"`
	CallSeconds    float64   `json:"callSeconds"`              // total duration of all calls
	ResyncSeconds  float64   `json:"resyncSeconds,omitempty"`  // the resync period
	ResyncFraction float64   `json:"resyncFraction,omitempty"` // finished part of the current resync
}

// report returns the state of everything that runs, with the details of what is open.
func (t *trends) report(now time.Time, open func(id string) bool) report {
	r := report{Time: now, Process: self, Informers: []informer{}}
	for _, e := range engine.Running() {
		r.Informers = append(r.Informers, t.informerOf(now, e.Name, e.Value, open))
	}
	slices.SortStableFunc(r.Informers, func(a, b informer) int { return compareProblems(a.Problems, b.Problems) })
	for _, p := range registry.Proxies() {
		r.Proxies = append(r.Proxies, t.proxyOf(now, p, open))
	}
	return r
}

func (t *trends) informerOf(now time.Time, name string, e *engine.Engine, open func(id string) bool) informer {
	i := informer{row: row{ID: "informer " + name}, Name: name, Objects: e.Store().Len()}
	m := e.Store().Memory()
	i.Memory = m.Total()
	synced, detailed := true, open(i.ID)
	statuses := e.Statuses()
	for n, s := range statuses {
		if s.ItemType != (wire.TypeMeta{}) {
			i.APIVersion, i.Kind, i.Resource = s.ItemType.APIVersion, s.ItemType.Kind, s.Resource
		}
		if n == 0 || s.Heard.Before(i.Heard) {
			i.Heard = s.Heard
		}
		synced = synced && s.Synced
		i.Problems = append(i.Problems, ofReflector(now, s)...)
	}
	handlers := e.Handlers()
	slices.SortFunc(handlers, func(a, b *delivery.Registration) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, r := range handlers {
		h := handlerOf(r)
		if detailed && seconds(h.BusySeconds) > maxCall {
			h.Stack = t.stack(r)
		}
		i.Events, i.Lag = i.Events+h.Events, max(i.Lag, h.Lag)
		i.Problems = append(i.Problems, ofHandler(h, now.Sub(h.Panicked) < panicsFor)...)
		i.Handlers = append(i.Handlers, h)
	}
	slices.SortStableFunc(i.Problems, func(a, b problem) int { return compareProblems([]problem{a}, []problem{b}) })
	i.Standing = standing(i.Problems, synced)
	if r := e.Requests(); r != nil {
		i.received = r.WireBytes.Load()
		i.Requests = &requests{r.Lists.Load(), r.Watches.Load(), i.received, r.BodyBytes.Load()}
	}
	if !detailed {
		i.Handlers, i.Requests = nil, nil
		return i
	}
	i.ResourceVersion, i.RawBytes, i.MemoryBytes, i.RelistsBy, i.Series = e.Store().ResourceVersion(), m.Raw, memoryOf(m), relistsBy(e.Relists()), t.charts(i.ID, informerSeries)
	transitions := e.Transitions()
	for n, s := range statuses {
		i.Reflectors = append(i.Reflectors, reflectorOf(s, transitions[n]))
	}
	return i
}

func handlerOf(r *delivery.Registration) handlerState {
	s := r.Stats()
	h := handlerState{
		Name: r.Name(), Synced: r.HasSynced(), Events: s.Handled, Panics: s.Panics, Panicked: s.Panicked, Lag: s.Lag, PendingKeys: s.Pending,
		BusySeconds: s.Busy.Seconds(), Key: s.Key, LongestSeconds: s.Longest.Seconds(), CallSeconds: s.Spent.Seconds(),
		ResyncSeconds: s.Resync.Seconds(), ResyncFraction: s.Swept,
	}
	if s.Doing != 0 {
		h.Doing = s.Doing.String()
	}
	return h
}

func reflectorOf(s reflector.Status, last []reflector.Transition) reflectorState {
	r := reflectorState{
		Namespace: s.Namespace, Selector: s.Selector, ScopeUnknown: s.ScopeUnknown,
		Phase: s.Phase.String(), Since: s.Since, Mode: s.Mode.String(), Synced: s.Synced, Heard: s.Heard, CurrentAt: s.CurrentAt,
		Error: text(s.Err), LastError: text(s.LastErr), LastErrorAt: s.LastErrAt,
		Attempts: s.Attempts, NextRetry: s.NextRetry, Queued: s.Queued, Relists: s.Relists, InParts: s.RelistsInParts, Transitions: []transition{},
		Listed: s.Listed, Remaining: s.Remaining, Unreadable: s.Skipped,
	}
	for _, t := range last {
		r.Transitions = append(r.Transitions, transition{t.At, t.After, text(t.Err), t.Phase.String(), t.Next(), t.Reason.String()})
	}
	return r
}

// relistsBy returns the number of relists by reason, for the reasons that occurred.
func relistsBy(relists reflector.Relists) map[string]int {
	all := map[string]int{}
	for reason, n := range relists.All() {
		if n > 0 {
			all[reason.String()] = n
		}
	}
	return all
}

func memoryOf(m store.Memory) map[string]int64 {
	all := map[string]int64{}
	for _, p := range m.Purposes() {
		all[p.Name] = p.Bytes
	}
	return all
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// proxy is the page's data about a proxy.
type proxy struct {
	ID   string `json:"id"`
	Name string `json:"name"` // its URL
	registry.ProxyState
	Series    []series   `json:"series"`    // only for a page
	Resources []resource `json:"resources"` // those that need attention first, then by full name
}

// resource is the page's data about a resource of a proxy.
type resource struct {
	row
	registry.ProxyResource
	RawBytes    int64            `json:"rawBytes"`
	MemoryBytes map[string]int64 `json:"memoryBytes,omitempty"`
	RelistsBy   map[string]int   `json:"relistsBy,omitempty"`
	Reflector   *reflectorState  `json:"reflector,omitempty"` // nil unless open
}

func (t *trends) proxyOf(now time.Time, p registry.Named[registry.Proxy], open func(id string) bool) proxy {
	out := proxy{ID: "proxy " + p.Name, Name: p.Name, ProxyState: p.Value.State(), Resources: []resource{}}
	for _, r := range out.ProxyState.Resources {
		one := resource{row: row{ID: out.ID + " " + r.FullName, Problems: ofResource(r), Memory: r.Memory.Total()}, ProxyResource: r, RawBytes: r.Memory.Raw}
		if one.Standing = r.State; r.State == "current" {
			one.Standing = standing(nil, true)
		}
		if open(one.ID) {
			one.MemoryBytes, one.RelistsBy = memoryOf(r.Memory), relistsBy(r.Relists)
			one.Series = t.charts(one.ID, resourceSeries)
			if r.Reflector != nil {
				one.Reflector = new(reflectorOf(*r.Reflector, r.Transitions))
			}
		}
		out.Resources = append(out.Resources, one)
	}
	slices.SortStableFunc(out.Resources, func(a, b resource) int { return compareProblems(a.Problems, b.Problems) })
	return out
}
