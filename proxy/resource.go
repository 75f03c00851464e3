package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is one resource that the proxy holds, or is about to. One goroutine runs it, and one
// more guards each session.
type resource struct {
	resources  *resources
	gvr        schema.GroupVersionResource
	configured bool // in Options.Resources: held for good
	stop       context.CancelFunc
	wake       chan struct{} // of capacity one: the guard is to ask soon

	ready          atomic.Pointer[session] // nil: not ready
	running        atomic.Pointer[session] // the one that runs, ready or not
	lastRead       atomic.Int64            // Unix nanoseconds of the last read
	watchers       atomic.Int64
	sessions       atomic.Uint64 // stores begun
	failedSessions atomic.Uint64 // stores that never became ready
	events         atomic.Uint64
	initialObjects atomic.Uint64
	versionQueries atomic.Uint64 // questions for the upstream's newest resourceVersion, for the sake of readers
	proofWatches   atomic.Uint64 // short WATCHes for the same
	stopping       atomic.Bool
	rewoundFrom    atomic.Uint64          // the newest resourceVersion from before the upstream went back; 0: it never has
	lastError      atomic.Pointer[string] // why it is not current; nil while it is
	notReady       atomic.Int32           // the standing while there is no session: reading, or why there is none
	everReady      atomic.Bool            // there was a session that was ready
	created        time.Time              // when it was named
}

func newResource(rs *resources, gvr schema.GroupVersionResource, named bool) *resource {
	res := &resource{resources: rs, gvr: gvr, configured: named, wake: make(chan struct{}, 1), created: time.Now()}
	res.notReady.Store(int32(stateLoading))
	return res
}

// restartDelay paces the sessions of a resource.
const restartDelay = 5 * time.Second

// run holds the resource until ctx ends, or, if nobody named it, until it turns out that it cannot
// be held.
func (res *resource) run(ctx context.Context) error {
	for {
		err := res.runSession(ctx)
		if ctx.Err() != nil {
			return nil
		}
		res.recordError(err)
		res.resources.log.Warn("a resource is not held", "resource", res.name(), "error", err.Error())
		if !res.configured && !errors.Is(err, errWentBack) && !errors.Is(err, errRelistTooLarge) && !errors.Is(err, errRedefined) {
			return err
		}
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
			return nil
		}
	}
}

// recordError notes why the resource is not held.
func (res *resource) recordError(err error) {
	text := err.Error()
	res.lastError.Store(&text)
	res.notReady.Store(int32(stateOfError(err)))
}

// end lets go of the resource.
func (res *resource) end() {
	res.stopping.Store(true)
	res.stop()
}

func (res *resource) name() string { return res.gvr.GroupResource().String() }

// readSession returns the session that can answer, nil if none can, and notes the use.
func (res *resource) readSession() *session {
	res.lastRead.Store(time.Now().UnixNano())
	return res.ready.Load()
}
