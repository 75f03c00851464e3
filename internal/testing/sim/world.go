package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// World describes one run as data. Draw creates it from a seed, execute runs it, and shrink makes
// it smaller.
type World struct {
	Seed    uint64
	Builtin bool       // the objects are ConfigMaps in protobuf instead of custom resources in JSON
	Scheme  api.Scheme // the form of resourceVersions
	Base    int64      // the revision before the first write
	Keys    []api.Key
	Before  []Step // writes before the clients start
	Servers []api.Spec
	Clients []ClientSpec
	Steps   []Step // sorted by At
}

// ClientSpec describes a program that runs one informer.
type ClientSpec struct {
	Runner  string
	Scope   Scope
	Mode    string // the mode of the reflector
	Any     bool   // lists may be served from any state of the server's cache
	Typed   bool   // the client uses a Go type for the custom resource
	Partial bool   // the informer requests only metadata
	// Slow makes a native informer read bodies in small pieces, so that other goroutines can run
	// between two objects.
	Slow     bool
	Factory  bool          // a factory of the drop-in creates the informer
	Page     int64         // the number of objects in a page
	Lists    int           // the maximum number of concurrent lists; 0 means the default
	Options  string        // the name of an option of the drop-in
	Watch    time.Duration // the minimum timeout of a watch
	backoff  weir.Backoff
	LogBytes int64
	Tiers    bool // the second watch cache of a chain reads from the first one
	Handlers []HandlerSpec
}

// HandlerSpec describes one of an informer's handlers.
type HandlerSpec struct {
	Delay  time.Duration // the duration of each call
	Add    time.Duration // when it is registered; 0 means before the informer runs
	Remove time.Duration // when it is removed; 0 means never
	Block  time.Duration // from this time until Free, calls block; 0 means never
	Free   time.Duration // when blocked calls continue
	Resync time.Duration
	Filter string // the required value of label app; "" means no filter
}

// Scope is the set of objects that an informer requests.
type Scope struct {
	Namespaces []string
	Selectors  []string // label selectors
}

// Op says what a step does.
type Op uint8

const (
	Put      Op = iota + 1 // writes Keys[Key] with Label and Node
	Delete                 // deletes Keys[Key]
	Recreate               // deletes Keys[Key] and creates it again, with a new uid
	Bump                   // writes an object of another resource N times
	Compact                // compacts etcd, so that no watch can resume from before the newest version
	Restore                // restores a backup that is N revisions old, and restarts all servers
	Replace                // replaces the servers by one whose revisions start after N, in Scheme
	Schema                 // changes a conversion or a default
	Fault                  // puts Rule into effect
	CutAll                 // breaks every watch of Server
	Restart                // restarts Server
	Lag                    // sets the lag of Server to D
	Route                  // directs Client's requests to Server
	Look                   // reads Client's informer while other goroutines run
	Await                  // makes Client wait for the newest resourceVersion and then read
	Register               // registers handler N of Client
	Remove                 // removes handler N of Client
)

var opNames = [...]string{"", "put", "delete", "recreate", "bump", "compact", "restore", "replace", "schema", "fault", "cut", "restart", "lag", "route", "look", "await", "register", "remove"}

func (o Op) String() string { return opNames[o] }

// Step is one action in a world. The fields that it uses depend on Op.
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

// Calm reports whether clients can receive every change: no fault and no property of a server
// prevents that.
func (w *World) Calm() bool {
	return len(w.Servers) == 1 && !w.Servers[0].Old && w.Servers[0].Window == 0 && w.Servers[0].Lag == 0 &&
		!slices.ContainsFunc(w.Steps, func(s Step) bool { return !s.calm() })
}

// calm reports whether the step does not prevent clients from receiving every change.
func (s Step) calm() bool {
	switch s.Op {
	case Put, Delete, Recreate, Bump, Look, Await:
		return true
	case Fault:
		return s.Rule.Effect == api.Pieces
	}
	return false
}

// Unordered reports whether clients cannot distinguish old events from new ones. That is so if
// resourceVersions cannot be compared, and also one of the following is true: events are repeated,
// a client has several watches, a fault affects lists, or a server serves all LISTs from a cache
// that lags.
func (w *World) Unordered() bool {
	lists := api.AskList | api.AskListAny | api.AskPage | api.AskMore | api.AskInitial
	return w.opaque() && (w.repeats() ||
		slices.ContainsFunc(w.Clients, func(c ClientSpec) bool { return len(c.Scope.pairs()) > 1 }) ||
		slices.ContainsFunc(w.Servers, func(s api.Spec) bool { return s.Stale }) ||
		slices.ContainsFunc(w.Steps, func(s Step) bool {
			return s.Op == Fault && s.Rule.Ask&lists != 0 && s.Rule.Effect != api.Pieces
		}))
}

// goesBack reports whether the servers are restored from a backup, or replaced, in this world.
func (w *World) goesBack() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Restore || s.Op == Replace })
}

// opaque reports whether the world has resourceVersions that cannot be compared.
func (w *World) opaque() bool {
	return w.Scheme == api.Opaque || slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Replace && s.Scheme == api.Opaque })
}

// Lasts returns the time of the last scheduled event: a step, the end of a fault, or the
// registration, removal or unblocking of a handler.
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
