package debug

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/engine"
)

// report is what the page shows at one moment.
type report struct {
	Time      time.Time  `json:"time"`
	Informers []informer `json:"informers"` // by name
}

type informer struct {
	Name            string           `json:"name"`
	APIVersion      string           `json:"apiVersion,omitempty"` // "" until the server has told it
	Kind            string           `json:"kind,omitempty"`
	Objects         int              `json:"objects"`
	ResourceVersion string           `json:"resourceVersion"`
	RawBytes        int64            `json:"rawBytes"`
	MemoryBytes     map[string]int64 `json:"memoryBytes"` // by purpose
	Requests        *requests        `json:"requests,omitempty"`
	Reflectors      []reflectorState `json:"reflectors"`
	Handlers        []handlerState   `json:"handlers"` // by name
}

type requests struct {
	Lists         int64 `json:"lists"`
	Watches       int64 `json:"watches"`
	ReceivedBytes int64 `json:"receivedBytes"`
	BodyBytes     int64 `json:"bodyBytes"`
}

type reflectorState struct {
	Namespace   string     `json:"namespace,omitempty"`
	Selector    string     `json:"selector,omitempty"`
	Phase       string     `json:"phase"`
	Since       time.Time  `json:"since"`
	Mode        string     `json:"mode"`
	Synced      bool       `json:"synced"`
	Heard       *time.Time `json:"heard,omitempty"`
	Error       string     `json:"error,omitempty"`
	LastError   string     `json:"lastError,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
	Attempts    int        `json:"attempts"`
	NextRetry   *time.Time `json:"nextRetry,omitempty"`
	Relists     int        `json:"relists"`
	Listed      int64      `json:"listed"`
	Remaining   int64      `json:"remaining"` // -1: the server does not say
	Unreadable  int        `json:"unreadable"`
}

type handlerState struct {
	Name        string  `json:"name"`
	Synced      bool    `json:"synced"`
	Events      uint64  `json:"events"`
	Panics      uint64  `json:"panics"`
	Lag         uint64  `json:"lag"`
	PendingKeys int     `json:"pendingKeys"`
	BusySeconds float64 `json:"busySeconds"`
}

// newReport collects the informers that run.
func newReport(now time.Time) report {
	r := report{Time: now, Informers: []informer{}}
	for _, e := range engine.Running() {
		r.Informers = append(r.Informers, informerOf(e.Name, e.Engine))
	}
	return r
}

func informerOf(name string, e *engine.Engine) informer {
	store := e.Store()
	m := store.Memory()
	i := informer{
		Name: name, Objects: store.Len(), ResourceVersion: store.ResourceVersion(), RawBytes: m.Raw,
		MemoryBytes: map[string]int64{}, Reflectors: []reflectorState{}, Handlers: []handlerState{},
	}
	for _, p := range m.Purposes() {
		i.MemoryBytes[p.Name] = p.Bytes
	}
	if r := e.Requests(); r != nil {
		i.Requests = &requests{r.Lists.Load(), r.Watches.Load(), r.WireBytes.Load(), r.BodyBytes.Load()}
	}
	for _, s := range e.Statuses() {
		if s.ItemType.Kind != "" {
			i.APIVersion, i.Kind = s.ItemType.APIVersion, s.ItemType.Kind
		}
		i.Reflectors = append(i.Reflectors, reflectorOf(s))
	}
	for _, r := range e.Handlers() {
		s := r.Stats()
		i.Handlers = append(i.Handlers, handlerState{r.Name(), r.HasSynced(), s.Handled, s.Panics, s.Lag, s.Pending, s.Busy.Seconds()})
	}
	slices.SortFunc(i.Handlers, func(a, b handlerState) int { return cmp.Compare(a.Name, b.Name) })
	return i
}

func reflectorOf(s engine.Status) reflectorState {
	return reflectorState{
		Namespace: s.Namespace, Selector: s.Selector,
		Phase: s.Phase.String(), Since: s.Since, Mode: s.Mode.String(), Synced: s.Synced, Heard: known(s.Heard),
		Error: text(s.Err), LastError: text(s.LastErr), LastErrorAt: known(s.LastErrAt),
		Attempts: s.Attempts, NextRetry: known(s.NextRetry), Relists: s.Relists,
		Listed: s.Listed, Remaining: s.Remaining, Unreadable: s.Skipped,
	}
}

// known returns nil for a time that is zero.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// text returns an error's text, or "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
