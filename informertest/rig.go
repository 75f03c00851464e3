package informertest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Rig is how the suite makes informers of one implementation, and what is known of it.
type Rig struct {
	// Name names the implementation in the report.
	Name string
	// New makes an informer of the pods of all namespaces on the server that cfg reaches. It is not running yet, and has
	// made no request. The config is the informer's own; New may set its content types.
	New func(cfg *rest.Config, o Options) (Informer, error)
	// Fails names the stories that the implementation is known to fail, each with the reason. The suite requires that it
	// does fail them. nil: it fails none.
	Fails map[string]string
}

// Options of an informer under test.
type Options struct {
	// Resync is the resync period of handlers that do not ask for another one. 0 is off.
	Resync time.Duration
	// Indexes are there from the start.
	Indexes map[string]IndexFunc
}

// IndexFunc gives the values under which an index has a pod.
type IndexFunc func(*corev1.Pod) []string

// Informer is what the suite asks of an informer. All methods may be called from any goroutine.
type Informer interface {
	// Run lists, watches and serves handlers until ctx ends, and returns when everything that it started has ended. Run a
	// second time, it returns at once and does nothing.
	Run(ctx context.Context)
	// Handle registers a handler, before, during or after the first list. After Run it is an error.
	Handle(h Handler, o HandlerOptions) (Registration, error)
	// HasSynced reports whether everything that the first list brought is held.
	HasSynced() bool
	// WaitForSync is how a user of the implementation waits for HasSynced: what it says when ctx ends first is all that the
	// user learns.
	WaitForSync(ctx context.Context) error
	// ResourceVersions are those of the objects held, by key ("namespace/name").
	ResourceVersions() map[string]string
	// Get is one object that is held, shared and read-only.
	Get(key string) (*corev1.Pod, bool)
	// AddIndex adds an index, at any time. A name that is taken is an error.
	AddIndex(name string, f IndexFunc) error
	// ByIndex are the keys of the objects that an index has under a value, in any order.
	ByIndex(name, value string) ([]string, error)
	// Err is what now keeps the informer from being current; nil when nothing does. An implementation that cannot tell
	// returns what it can, or nil always.
	Err() error
}

// Handler is called with what changes, one call at a time. Any function may be nil. The objects are shared.
type Handler struct {
	// Added tells of an object that the handler does not know. initial: it is part of the state at the handler's
	// registration, or of the first list.
	Added func(pod *corev1.Pod, initial bool)
	// Updated tells of a change. old is what the handler was told last; on a resync old and new are the same version.
	Updated func(old, pod *corev1.Pod)
	// Deleted tells that an object is gone: with its last state, or with the last that is known.
	Deleted func(pod *corev1.Pod)
}

// HandlerOptions say how a handler is served. The zero value works.
type HandlerOptions struct {
	// Resync is the handler's own resync period; never shorter than Options.Resync. 0: Options.Resync.
	Resync time.Duration
}

// Registration is a handler on an informer.
type Registration interface {
	// HasSynced reports whether the handler has handled everything of the first list, or of the state at its
	// registration.
	HasSynced() bool
	// Remove ends the handler: what changes from now on is not told to it any more. It may be called from the handler.
	Remove() error
}
