package registry

import (
	"time"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Proxy is a running proxy. Its methods are safe for concurrent use, and cost nothing while they
// are not called.
type Proxy interface {
	// State returns the proxy's current state.
	State() ProxyState
	// Objects returns the objects of one of State's resources, by its Name or FullName. It reports
	// false if the resource is not cached now.
	Objects(resource string) (ProxyObjects, bool)
}

// ProxyObjects are the cached objects of one resource.
type ProxyObjects struct {
	Store *store.Store
	Kind  wire.TypeMeta // empty: not known yet
	// Decode returns the value of an object, which must not be changed.
	Decode func(*store.Object) (any, error)
}

// ProxyState is the state of a proxy at one moment.
type ProxyState struct {
	Connections int `json:"connections"`
	// LongRunning counts watches, logs and upgraded connections, forwarded ones included.
	LongRunning int `json:"longRunning"`
	// ForwardedWatches are those of LongRunning that the upstream answers.
	ForwardedWatches int   `json:"forwardedWatches"`
	WatchBytes       int64 `json:"watchBytes"` // the memory of watches
	Lists            int64 `json:"lists"`      // sent upstream, for the cache
	Watches          int64 `json:"watches"`    // also sent upstream for the cache
	Received         int64 `json:"receivedBytes"`
	Forwarded        int64 `json:"forwarded"` // clients' requests
	Unanswered       int64 `json:"unanswered"`
	// BudgetUsed is the part of Budget that resources cached on demand use.
	BudgetUsed   int64           `json:"budgetUsedBytes"`
	Budget       int64           `json:"budgetBytes"`
	Revoked      int64           `json:"revokedWatches"`
	Resources    []ProxyResource `json:"-"`            // by FullName
	Watchers     []ProxyWatchers `json:"watchers"`     // of watches served from the cache
	WatchersMore int             `json:"watchersMore"` // groups that Watchers leaves out
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
	Events          uint64     `json:"events"`   // received
	Sessions        uint64     `json:"sessions"` // how often its caching was started
	Gets            uint64     `json:"gets"`
	ListsServed     uint64     `json:"listsServed"`
	Watchers        int        `json:"watchers"`
	Sent            uint64     `json:"sent"` // events, to all watchers together
	Lag             uint64     `json:"lag"`  // of the slowest watcher, in changes
	BacklogBytes    int64      `json:"backlogBytes"`
	CaughtUp        uint64     `json:"caughtUp"`
	Stalled         uint64     `json:"stalled"`

	Memory      store.Memory           `json:"-"`
	Reflector   *reflector.Status      `json:"-"` // nil: it does not run
	Transitions []reflector.Transition `json:"-"`
	Relists     reflector.Relists      `json:"-"`
}

// ProxyWatchers are the open watches of one client with equal parameters.
type ProxyWatchers struct {
	User      string    `json:"user"`
	Agent     string    `json:"agent"`
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Selector  string    `json:"selector,omitempty"`
	Count     int       `json:"count"`
	Since     time.Time `json:"since"` // of the oldest
}

// proxies are the running proxies of this process.
var proxies Registry[Proxy]

// AddProxy adds a running proxy, by its URL. remove removes it.
func AddProxy(url string, p Proxy) (remove func()) { return proxies.Add(url, p) }

// Proxies returns the running proxies of this process, ordered by name.
func Proxies() []Named[Proxy] { return proxies.All() }
