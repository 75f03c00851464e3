package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// World is all that happens in one run, as data: drawn from a seed, then executed, then shrunk by
// leaving things out.
type World struct {
	Seed    uint64
	Builtin bool       // ConfigMaps as protobuf, in place of custom resources as JSON
	Scheme  api.Scheme // of resourceVersions
	Base    int64      // the revision before the first
	Keys    []api.Key
	Before  []Step // writes before any client runs
	Servers []api.Spec
	Clients []ClientSpec
	Steps   []Step // in the order of their times
}

// ClientSpec is a program that runs one informer.
type ClientSpec struct {
	Runner  string
	Scope   Scope
	Mode    string // of the reflector
	Any     bool   // lists need not be consistent
	Typed   bool   // a custom resource has a Go type
	Partial bool   // metadata only
	// Slow says that others come between one object that a native informer takes in and the next.
	Slow     bool
	Factory  bool          // the drop-in comes out of one of its factories
	Page     int64         // how many objects a page has
	Lists    int           // how many lists are under way at a time; 0: as many as by default
	Options  string        // of the drop-in
	Watch    time.Duration // the shortest time that a watch is asked for
	backoff  weir.Backoff
	LogBytes int64
	Tiers    bool // the second watch cache of a chain is fed by the first
	Handlers []HandlerSpec
}

// HandlerSpec is one of an informer's handlers.
type HandlerSpec struct {
	Delay  time.Duration // that each call takes
	Add    time.Duration // when it is registered; 0: before the informer runs
	Remove time.Duration // 0: never
	Block  time.Duration // when its next call begins to block; 0: never
	Free   time.Duration // when that ends
	Resync time.Duration
	Filter string // the value of label app that objects must have to be told; "": all are
}

// Scope is what an informer asks for.
type Scope struct {
	Namespaces []string
	Selectors  []string // of labels
}

// Op is what a step does.
type Op uint8

const (
	Put      Op = iota + 1 // writes Keys[Key] with Label and Node
	Delete                 // deletes Keys[Key]
	Recreate               // both, with a new uid
	Bump                   // another resource is written N times
	Compact                // no older version can be resumed from
	Restore                // from a backup that is N revisions old; all servers restart
	Replace                // by a server that counts from N, in Scheme
	Schema                 // conversion or defaults change
	Fault                  // Rule begins
	CutAll                 // every watch of Server breaks
	Restart                // Server restarts
	Lag                    // Server sees commits D later from now on
	Route                  // Client's requests go to Server
	Look                   // Client's informer is read, while others run
	Await                  // Client waits for the newest resourceVersion, and then reads
	Register               // handler N of Client is registered
	Remove                 // and removed
)

var opNames = [...]string{"", "put", "delete", "recreate", "bump", "compact", "restore", "replace", "schema", "fault", "cut", "restart", "lag", "route", "look", "await", "register", "remove"}

func (o Op) String() string { return opNames[o] }

// Step is one thing that happens.
type Step struct {
	At             time.Duration
	Op             Op
	Key            int
	Label, Node    string
	N              int64
	D              time.Duration
	Scheme         api.Scheme
	Client, Server int
	Rule           api.Rule
}

func (s Step) describe(keys []api.Key) string {
	at := fmt.Sprintf("%-12v %v", s.At, s.Op)
	switch s.Op {
	case Put, Recreate:
		return fmt.Sprintf("%s %v app=%s node=%s", at, keys[s.Key], s.Label, s.Node)
	case Delete:
		return fmt.Sprintf("%s %v", at, keys[s.Key])
	case Bump, Restore:
		return fmt.Sprintf("%s %d", at, s.N)
	case Replace:
		return fmt.Sprintf("%s base=%d scheme=%d", at, s.N, s.Scheme)
	case Fault:
		return fmt.Sprintf("%s: %v", at, s.Rule)
	case CutAll, Restart:
		return fmt.Sprintf("%s server %d", at, s.Server)
	case Lag:
		return fmt.Sprintf("%s server %d %v", at, s.Server, s.D)
	case Route:
		return fmt.Sprintf("%s client %d to server %d", at, s.Client, s.Server)
	case Look, Await:
		return fmt.Sprintf("%s client %d", at, s.Client)
	case Register, Remove:
		return fmt.Sprintf("%s client %d handler %d", at, s.Client, s.N)
	}
	return at
}

func (w *World) String() string {
	var b strings.Builder
	kind := "custom resources (JSON)"
	if w.Builtin {
		kind = "ConfigMaps (protobuf)"
	}
	fmt.Fprintf(&b, "world of seed %d: %s, revisions from %d\n", w.Seed, kind, w.Base+1)
	for _, s := range w.Before {
		fmt.Fprintf(&b, "  before: %s\n", s.describe(w.Keys))
	}
	for i, s := range w.Servers {
		fmt.Fprintf(&b, "  server %d: %+v\n", i, s)
	}
	for i, c := range w.Clients {
		fmt.Fprintf(&b, "  client %d: %s mode=%s any=%v typed=%v partial=%v slow=%v factory=%v options=%q namespaces=%v selectors=%v watch=%v log=%d tiers=%v\n", i, c.Runner, c.Mode, c.Any, c.Typed,
			c.Partial, c.Slow, c.Factory, c.Options,
			c.Scope.Namespaces, c.Scope.Selectors, c.Watch, c.LogBytes, c.Tiers)
		for j, h := range c.Handlers {
			fmt.Fprintf(&b, "    handler %d: %+v\n", j, h)
		}
	}
	for _, s := range w.Steps {
		fmt.Fprintf(&b, "  %s\n", s.describe(w.Keys))
	}
	return b.String()
}

// Calm reports whether nothing keeps clients from seeing every change, one by one.
func (w *World) Calm() bool {
	return len(w.Servers) == 1 && !w.Servers[0].Old && w.Servers[0].Window == 0 && w.Servers[0].Lag == 0 &&
		!slices.ContainsFunc(w.Steps, func(s Step) bool { return !s.calm() })
}

// calm reports whether every change can be seen in spite of the step.
func (s Step) calm() bool {
	switch s.Op {
	case Put, Delete, Recreate, Bump, Look, Await:
		return true
	case Fault:
		return s.Rule.Effect == api.Pieces
	}
	return false
}

// Unordered reports whether old events cannot be told from new ones: resourceVersions cannot be
// compared, and events come twice or by several watches, or after a list that broke off, or a
// server answers from a cache that lags.
func (w *World) Unordered() bool {
	lists := api.AskList | api.AskListAny | api.AskPage | api.AskMore | api.AskInitial
	return w.opaque() && (w.repeats() ||
		slices.ContainsFunc(w.Clients, func(c ClientSpec) bool { return len(c.Scope.pairs()) > 1 }) ||
		slices.ContainsFunc(w.Servers, func(s api.Spec) bool { return s.Stale }) ||
		slices.ContainsFunc(w.Steps, func(s Step) bool {
			return s.Op == Fault && s.Rule.Ask&lists != 0 && s.Rule.Effect != api.Pieces
		}))
}

// goesBack reports whether the server is restored from a backup, or replaced.
func (w *World) goesBack() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Restore || s.Op == Replace })
}

// opaque reports whether some resourceVersions cannot be compared.
func (w *World) opaque() bool {
	return w.Scheme == api.Opaque || slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Replace && s.Scheme == api.Opaque })
}

// Lasts returns when everything that ends is over: the last step, the last fault that has an end,
// and the last time at which a handler is registered, removed or unblocked.
func (w *World) Lasts() time.Duration {
	var t time.Duration
	for _, s := range w.Steps {
		t = max(t, s.At)
		if s.Op == Fault {
			t = max(t, s.Rule.Until)
		}
	}
	for _, c := range w.Clients {
		for _, h := range c.Handlers {
			t = max(t, h.Add, h.Remove, h.Free)
		}
	}
	return t
}
