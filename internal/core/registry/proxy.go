package registry

import (
	"time"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Proxy is a running proxy. Its methods are safe for concurrent use. The proxy computes the results
// only when the methods are called.
type Proxy interface {
	// State returns the proxy's current state.
	State() ProxyState
	// Objects returns the objects of one of State's resources. resource is the resource's Name or
	// FullName. ok is false if the proxy does not cache the resource now.
	Objects(resource string) (ProxyObjects, bool)
}

// ProxyObjects contains the cached objects of one resource.
type ProxyObjects struct {
	Store *store.Store
	Kind  wire.TypeMeta // the type of the objects; empty if not known yet
	// Decode returns the Go value of an object. The caller must not change the value.
	Decode func(*store.Object) (any, error)
}

// ProxyState is the state of a proxy at one moment.
type ProxyState struct {
	Connections int `json:"connections"`
	// LongRunning is the number of open watches, log streams and upgraded connections. It includes the
	// forwarded ones.
	LongRunning int `json:"longRunning"`
	// ForwardedWatches is the number of watches in LongRunning that the proxy forwards to the
	// upstream server.
	ForwardedWatches int   `json:"forwardedWatches"`
	WatchBytes       int64 `json:"watchBytes"` // the memory that watches use, in bytes
	// LISTs that the proxy has sent to the upstream server to fill its cache
	Lists int64 `json:"lists"`
	// WATCHes that the proxy has sent to the upstream server to fill its cache
	Watches  int64 `json:"watches"`
	Received int64 `json:"receivedBytes"`
	// clients' requests that were forwarded to the upstream server
	Forwarded  int64 `json:"forwarded"`
	Unanswered int64 `json:"unanswered"`
	// BudgetUsed is the memory of the resources that the proxy caches on demand. Budget is the limit
	// of that memory.
	BudgetUsed int64           `json:"budgetUsedBytes"`
	Budget     int64           `json:"budgetBytes"`
	Revoked    int64           `json:"revokedWatches"`
	Resources  []ProxyResource `json:"-"` // ordered by FullName
	// groups of watches that are served from the cache
	Watchers     []ProxyWatchers `json:"watchers"`
	WatchersMore int             `json:"watchersMore"` // the number of groups that Watchers omits
	// ForwardedFor counts the forwarded requests by reason, in a fixed order.
	ForwardedFor []ProxyCount `json:"forwardedFor"`
	Seats        []ProxySeats `json:"seats"`
}

// ProxyCount is a number of requests with a description of them.
type ProxyCount struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// ProxySeats are the requests of one kind and one priority level that have a seat, or wait for one.
type ProxySeats struct {
	Of      string `json:"of"`
	Level   string `json:"level"`
	Taken   int    `json:"taken"`
	Waiting int    `json:"waiting"`
}

// ProxyResource is the state of one resource of a proxy.
type ProxyResource struct {
	Name            string     `json:"name"`     // such as deployments.apps
	FullName        string     `json:"fullName"` // such as deployments.v1.apps
	Version         string     `json:"version"`
	State           string     `json:"state"`
	Error           string     `json:"error,omitempty"`
	Configured      bool       `json:"configured"`
	LastRead        *time.Time `json:"lastRead,omitempty"`
	Heard           *time.Time `json:"heard,omitempty"`
	Objects         int        `json:"objects"`
	ResourceVersion string     `json:"resourceVersion"`
	Events          uint64     `json:"events"`   // received events
	Sessions        uint64     `json:"sessions"` // how often the proxy started to cache the resource
	Gets            uint64     `json:"gets"`
	ListsServed     uint64     `json:"listsServed"`
	Watchers        int        `json:"watchers"`
	Sent            uint64     `json:"sent"` // the number of events sent to all watchers together
	Lag             uint64     `json:"lag"`  // of the slowest watcher, in changes
	BacklogBytes    int64      `json:"backlogBytes"`
	CaughtUp        uint64     `json:"caughtUp"`
	Stalled         uint64     `json:"stalled"`

	Memory      store.Memory           `json:"-"`
	Reflector   *reflector.Status      `json:"-"` // nil if no reflector runs for the resource
	Transitions []reflector.Transition `json:"-"`
	Relists     reflector.Relists      `json:"-"`
}

// ProxyWatchers describes a group of open watches of one client that have equal parameters.
type ProxyWatchers struct {
	User      string    `json:"user"`
	Agent     string    `json:"agent"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Selector  string    `json:"selector,omitempty"`
	Count     int       `json:"count"`
	Since     time.Time `json:"since"` // when the oldest watch started
}

// proxies contains the running proxies of this process.
var proxies Registry[Proxy]

// AddProxy adds a running proxy. Its name is its URL. remove removes it.
func AddProxy(url string, p Proxy) (remove func()) { return proxies.Add(url, p) }

// Proxies returns the running proxies of this process, ordered by name.
func Proxies() []Named[Proxy] { return proxies.All() }
