package mirror

import (
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Config configures a Mirror. All fields are required, unless their zero value is described.
type Config struct {
	Upstream *rest.Config   // for the LISTs and WATCHes
	Client   rest.Interface // for requests about resources, such as discovery
	Review   time.Duration  // bounds a request of Client
	Log      *slog.Logger

	// Resources are cached for as long as the Mirror runs. A resource without a version is cached in
	// the version that the upstream prefers. TrustCache names resources that are served without a
	// proof that the cache is current. It applies to all versions of these resources.
	Resources, TrustCache []schema.GroupVersionResource
	// MemoryBudget bounds the bytes of the resources that are cached on demand. 0: the Mirror caches
	// no resource on demand.
	MemoryBudget int64
	// ForwardConsistent says that all consistent reads are forwarded.
	ForwardConsistent bool
	// MaxStaleness bounds the age of a session that answers a read without proof. 0: no bound.
	MaxStaleness time.Duration
	// ExpireSlowWatches, LogBytes, FlushInterval, BookmarkInterval and MinWatch are the same as in
	// proxy.Options.
	ExpireSlowWatches                         bool
	LogBytes                                  int64
	FlushInterval, BookmarkInterval, MinWatch time.Duration
	Timeouts                                  Timeouts

	// OnWentBack is called after the upstream went back in time. A session that lists the upstream
	// after that time does not serve reads before OnWentBack is called.
	OnWentBack func()
	// WatchExcess returns by how many bytes the memory of all watches together exceeds the limit. 0 or
	// less: it does not.
	WatchExcess func() int64
}

// Timeouts bounds waits for cached resources.
type Timeouts struct {
	Origin time.Duration // time between two checks by the monitor
	Settle time.Duration // within this time a server publishes its new schema (see definitionCheck)
	// Restart is the pause between two sessions of a resource. It gives other API servers time to load
	// a new definition, which one server has announced.
	Restart time.Duration
	// Reread bounds how long a request waits while the proxy reads the resource again, after a restore
	// or a redefinition. After Reread, or if too many requests wait, the proxy answers 429.
	Reread time.Duration
	// Proof is how long a read waits for a proof that a session is current. kube-apiserver waits as
	// long for its own cache. If the proof is the bookmark of a WATCH, the bookmark arrives two
	// seconds before the WATCH ends.
	Proof time.Duration
}

// DefaultTimeouts are the timeouts of a proxy.
var DefaultTimeouts = Timeouts{
	Origin: time.Minute, Settle: 3 * time.Minute, Restart: time.Second, Reread: 3 * time.Second, Proof: 3 * time.Second,
}
