package informertest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Rig describes one implementation to the suite.
type Rig struct {
	// Name names the implementation in the report.
	Name string
	// New returns an informer of the pods of all namespaces on the server that cfg reaches. It must
	// neither run nor send requests yet. The config is the informer's own; New may set its content
	// types.
	New func(cfg *rest.Config, o Options) (Informer, error)
	// Fails names the stories that the implementation is known to fail, each with the reason. The
	// suite requires that it fails them. It may be nil.
	Fails map[string]string
}

// Options are the options of an informer under test.
type Options struct {
	// Resync is the resync period of handlers without one of their own. 0 means no resyncs.
	Resync time.Duration
	// Indexes exist from the start.
	Indexes map[string]IndexFunc
	// Transform changes each object before it is held, indexed or delivered. The pod is its own. It
	// may be called twice for one object. nil means that objects stay as the server sends them. New
	// returns an error if the implementation has no transforms.
	Transform func(*corev1.Pod)
	// ListerWatcher makes what the informer lists and watches with. nil means what the implementation
	// has of its own. New returns an error if the implementation takes no ListerWatcher.
	ListerWatcher NewListerWatcher
}

// IndexFunc returns the values under which an index has a pod.
type IndexFunc func(*corev1.Pod) []string

// Informer is what the suite asks of an informer. All methods may be called from any goroutine.
type Informer interface {
	// Run lists, watches and calls handlers until ctx ends. It returns when everything that it
	// started has ended. A second call returns at once and does nothing.
	Run(ctx context.Context)
	// Handle registers a handler: before, during or after the first list. It returns an error after
	// Run.
	Handle(h Handler, o HandlerOptions) (Registration, error)
	// HasSynced reports whether everything that the first list brought is held.
	HasSynced() bool
	// WaitForSync waits for HasSynced as users of the implementation do. If ctx ends first, the
	// error is all that the user learns.
	WaitForSync(ctx context.Context) error
	// ResourceVersions returns the resourceVersions of the objects that are held, by key
	// ("namespace/name").
	ResourceVersions() map[string]string
	// Get returns an object that is held. The object is shared and read-only.
	Get(key string) (*corev1.Pod, bool)
	// AddIndex adds an index, at any time. It returns an error if the name is taken.
	AddIndex(name string, f IndexFunc) error
	// ByIndex returns the keys of the objects that an index has under a value, in any order.
	ByIndex(name, value string) ([]string, error)
	// Err returns what keeps the informer from being current now, or nil. An implementation that
	// cannot tell returns what it can, or always nil.
	Err() error
}

// Handler is called for changes, one call at a time. Any function may be nil. The objects are
// shared.
type Handler struct {
	// Added is called for an object that the handler does not know. initial says that the object is
	// part of the first list, or of the state at the handler's registration.
	Added func(pod *corev1.Pod, initial bool)
	// Updated is called for a change. old is the version that the handler got last; on a resync old
	// and pod are the same version.
	Updated func(old, pod *corev1.Pod)
	// Deleted is called for an object that is gone, with its final state or with the last one that
	// is known.
	Deleted func(pod *corev1.Pod)
}

// HandlerOptions configure a handler. The zero value is valid.
type HandlerOptions struct {
	// Resync is the handler's own resync period, never shorter than Options.Resync. 0 means
	// Options.Resync.
	Resync time.Duration
}

// Registration is a handler of an informer.
type Registration interface {
	// HasSynced reports whether the handler has handled everything of the first list, or of the
	// state at its registration.
	HasSynced() bool
	// Remove removes the handler: it is not called for later changes. The handler may call Remove
	// itself.
	Remove() error
}
