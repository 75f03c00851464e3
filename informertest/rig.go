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
	// neither run nor send requests yet. The informer owns the config; New may set its content types.
	New func(cfg *rest.Config, o Options) (Informer, error)
	// Fails names the stories that the implementation is known to fail, each with the reason. The
	// suite requires that it fails them. It may be nil.
	Fails map[string]string
}

// Options are the options of an informer under test.
type Options struct {
	// Resync is the resync period of handlers without their own period. 0 means no resyncs.
	Resync time.Duration
	// Indexes exist from the start.
	Indexes map[string]IndexFunc
	// Transform changes each object before it is stored, indexed or delivered. It owns the pod. It may
	// be called twice for one object. nil means that objects stay as the server sends them. New
	// returns an error if the implementation has no transforms.
	Transform func(*corev1.Pod)
	// ListerWatcher creates the informer's ListerWatcher. nil means the implementation's own. New
	// returns an error if the implementation takes no ListerWatcher.
	ListerWatcher NewListerWatcher
}

// IndexFunc returns the values under which an index finds a pod.
type IndexFunc func(*corev1.Pod) []string

// Informer is the interface that the suite needs. All methods may be called from any goroutine.
type Informer interface {
	// Run lists, watches and calls handlers until ctx ends. It returns when everything that it started
	// has ended. A second call returns immediately and does nothing.
	Run(ctx context.Context)
	// Handle registers a handler: before, during or after the first list. It returns an error after
	// Run.
	Handle(h Handler, o HandlerOptions) (Registration, error)
	// HasSynced reports whether every object of the first list is stored.
	HasSynced() bool
	// WaitForSync waits for HasSynced like users of the implementation. If ctx ends first, the error
	// is all that the user learns.
	WaitForSync(ctx context.Context) error
	// ResourceVersions returns the resourceVersions of the stored objects, by key ("namespace/name").
	ResourceVersions() map[string]string
	// Get returns a stored object. The object is shared and read-only.
	Get(key string) (*corev1.Pod, bool)
	// AddIndex adds an index, at any time. It returns an error if the name is in use.
	AddIndex(name string, f IndexFunc) error
	// ByIndex returns the keys of the objects under a value of an index, in any order.
	ByIndex(name, value string) ([]string, error)
	// Err returns the error that keeps the informer from being current now, or nil. An implementation
	// without that information returns an approximation, or always nil.
	Err() error
}

// Handler is called for changes, one call at a time. Any function may be nil. The objects are
// shared.
type Handler struct {
	// Added is called for an object that the handler does not know. initial says that the object is
	// part of the first list, or of the state at the handler's registration.
	Added func(pod *corev1.Pod, initial bool)
	// Updated is called for a change. old is the version that the handler received last; on a resync
	// old and pod are the same version.
	Updated func(old, pod *corev1.Pod)
	// Deleted is called for a deleted object, with its final state or the last known one.
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
	// HasSynced reports whether the handler has handled every object of the first list, or of the
	// state at its registration.
	HasSynced() bool
	// Remove removes the handler: it is not called for later changes. The handler may call Remove
	// itself.
	Remove() error
}
