package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/serve/feed"
)

// resource is one resource that the proxy caches, or is about to cache. One goroutine runs its
// sessions, and one more monitors the current session. Both end with the context of run.
type resource struct {
	resources  *resources
	gvr        schema.GroupVersionResource
	configured bool // in Options.Resources, so cached for good
	anyVersion bool // in the version that the upstream prefers
	stop       context.CancelFunc
	wake       chan struct{} // of capacity one; wakes the monitor

	ready          atomic.Pointer[session] // nil: not ready
	running        atomic.Pointer[session] // the current session, ready or not
	lastRead       atomic.Int64            // Unix nanoseconds
	watchers       atomic.Int64
	sessions       atomic.Uint64 // sessions begun
	failedSessions atomic.Uint64 // sessions that never became ready
	readySessions  atomic.Uint64 // sessions that became ready
	// failures counts the attempts to load it that the upstream has answered with an error, since it
	// was ready, or the upstream was not well.
	failures  atomic.Int32
	feedStats feed.Stats // of all sessions
	stopping  atomic.Bool
	lastError atomic.Pointer[string] // why it is not current; nil: it is
	notReady  atomic.Int32           // the resourceState while there is no session
	objects   atomic.Int64           // of the last session that was ready, at its end
	// redefined is when the last session ended with errRedefined, in Unix nanoseconds. 0: it was read
	// since.
	redefined   atomic.Int64
	definitions definitionHistory // of its sessions, which use it one after the other
	created     time.Time         // when it was first asked for
	rereaders   rereadQueue       // requests that wait while it is reread
}

func newResource(rs *resources, gvr schema.GroupVersionResource, configured bool) *resource {
	res := &resource{resources: rs, gvr: gvr, configured: configured, wake: make(chan struct{}, 1), created: time.Now()}
	res.notReady.Store(int32(stateLoading))
	return res
}

// maxRestartDelay bounds the pause between two sessions of a resource.
const maxRestartDelay = 5 * time.Second

// restartDelay returns the pause after a session. It is least after one that was ready, and doubles
// after others.
func restartDelay(least, last time.Duration, wasReady bool) time.Duration {
	if last == 0 || wasReady {
		return least
	}
	return min(2*last, maxRestartDelay)
}

// errOtherVersion ends a resource that is to be cached in another version.
var errOtherVersion = errors.New("the upstream prefers another version")

// prefersOther reports whether the upstream prefers another version of a resource that may be
// cached in any, after a session that ended with err: the version is not served any more, or the
// resource has another definition.
func (res *resource) prefersOther(ctx context.Context, err error) bool {
	if !res.anyVersion || !errors.Is(err, errRedefined) && stateOfError(err) != stateMissing {
		return false
	}
	any := res.gvr
	any.Version = ""
	preferred, err := res.resources.discoverer.preferredVersion(ctx, any)
	return err == nil && preferred != res.gvr
}

// run runs sessions until ctx ends. For a resource on demand it returns an error once the resource
// cannot be cached, and for one that is configured without a version errOtherVersion. An upstream
// that went back, or has another definition, may have just started: then it may take a while until
// it tells who serves the resource.
func (res *resource) run(ctx context.Context) error {
	var delay time.Duration
	var mayFail time.Time // until then the resource may be unknown, or not served yet
	for {
		ready := res.readySessions.Load()
		err := res.runSession(ctx)
		if ctx.Err() != nil || res.stopping.Load() { // ctx ends a moment after stopping is set
			return nil
		}
		res.recordError(err)
		res.resources.log.Warn("a resource is not cached", "resource", res.name(), "error", err.Error())
		switch {
		case res.prefersOther(ctx, err):
			return errOtherVersion
		case errors.Is(err, feed.ErrWentBack), errors.Is(err, feed.ErrRelistTooLarge), errors.Is(err, errRedefined):
			mayFail = time.Now().Add(rereadTime)
		case !res.configured && (errors.Is(err, errAggregated) || time.Now().After(mayFail)):
			return err
		}
		delay = restartDelay(res.resources.opts.timeouts.restart, delay, res.readySessions.Load() > ready)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		}
	}
}

// recordError records why the resource is not cached.
func (res *resource) recordError(err error) {
	text := err.Error()
	res.lastError.Store(&text)
	res.countFailure(err)
	res.notReady.Store(int32(stateOfError(err)))
}

// end stops caching the resource.
func (res *resource) end() {
	res.stopping.Store(true)
	res.stop()
}

func (res *resource) name() string { return res.gvr.GroupResource().String() }

// readSession returns the session that can serve reads, or nil, and records the access.
func (res *resource) readSession() *session {
	res.lastRead.Store(time.Now().UnixNano())
	return res.ready.Load()
}
