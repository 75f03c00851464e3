package mirror

import (
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Config configures the cached resources. All fields but those with a stated zero value are
// required.
type Config struct {
	Upstream *rest.Config   // of the LISTs and WATCHes
	Client   rest.Interface // of questions about resources
	Review   time.Duration  // bounds such a question
	Log      *slog.Logger

	// Resources are cached for good. One without a version is cached in that which the upstream
	// prefers. TrustCache names resources that are served without proof, in any version.
	Resources, TrustCache []schema.GroupVersionResource
	// MemoryBudget bounds the bytes of the resources cached on demand. 0: none are.
	MemoryBudget int64
	// ForwardConsistent forwards all consistent reads.
	ForwardConsistent bool
	// MaxStaleness bounds the age of a session that answers without proof. 0: there is no bound.
	MaxStaleness time.Duration
	// ExpireSlowWatches, LogBytes, FlushInterval, BookmarkInterval and MinWatch are those of
	// proxy.Options.
	ExpireSlowWatches                         bool
	LogBytes                                  int64
	FlushInterval, BookmarkInterval, MinWatch time.Duration
	Timeouts                                  Timeouts

	// OnWentBack is called when the upstream went back, before a session serves that was listed since.
	OnWentBack func()
	// WatchExcess returns by how many bytes watches exceed their memory. 0 or less: they do not.
	WatchExcess func() int64
}

// Timeouts bounds how long the cached resources wait.
type Timeouts struct {
	Origin time.Duration // time between two checks by the monitor
	Settle time.Duration // in which a server tells its new schema, see definitionCheck
	// Restart is the pause after a session of a resource. Other API servers may come to know a new
	// definition later than the one that announced it.
	Restart time.Duration
	// Reread is how long a request waits until a resource that is being reread is cached. After
	// that, and if too many requests wait, the answer is 429.
	Reread time.Duration
	// Proof is for a proof that a session is current, as kube-apiserver waits itself. The bookmark of
	// the WATCH that brings it comes two seconds before its end.
	Proof time.Duration
}

// DefaultTimeouts are those of a proxy.
var DefaultTimeouts = Timeouts{
	Origin: time.Minute, Settle: 3 * time.Minute, Restart: time.Second, Reread: 3 * time.Second, Proof: 3 * time.Second,
}
