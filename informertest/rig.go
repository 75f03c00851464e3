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
	// New returns an informer of the pods in all namespaces of the server that cfg reaches. New must
	// not start the informer or send requests. New may change cfg, for example its content types, and
	// the informer may keep it.
	New func(cfg *rest.Config, o Options) (Informer, error)
	// Fails contains the names of the stories that the implementation is known to fail, each with the
	// reason. The suite reports an error if the implementation passes such a story. Fails may be nil.
	Fails map[string]string
}

// Options are the options of an informer under test.
type Options struct {
	// Resync is the resync period of handlers that have no period of their own. 0 means no resyncs.
	Resync time.Duration
	// Indexes are the index functions, by index name, that the informer has from the start.
	Indexes map[string]IndexFunc
	// Transform changes each object before the informer stores it, indexes it or passes it to
	// handlers. It may change the pod that it receives, and the informer may call it twice for one
	// object. nil means that the informer does not change objects. New returns an error if the
	// implementation has no transforms.
	Transform func(*corev1.Pod)
	// ListerWatcher creates the informer's ListerWatcher. If it is nil, the implementation lists and
	// watches as usual. New returns an error if the implementation does not accept a ListerWatcher.
	ListerWatcher NewListerWatcher
}

// IndexFunc returns the values under which an index finds a pod.
type IndexFunc func(*corev1.Pod) []string

// Informer is the set of methods that the suite requires of an informer. All methods may be called
// from any goroutine.
type Informer interface {
	// Run lists, watches and calls handlers until ctx ends. It returns when every goroutine that it
	// started has ended. A second call returns immediately and does nothing.
	Run(ctx context.Context)
	// Handle registers a handler before, during or after the first list. After Run has returned,
	// Handle returns an error.
	Handle(h Handler, o HandlerOptions) (Registration, error)
	// HasSynced reports whether the informer stores every object of the first list.
	HasSynced() bool
	// WaitForSync waits until HasSynced is true, with the function that users of the implementation
	// call to wait. If ctx ends first, WaitForSync returns the error of that function.
	WaitForSync(ctx context.Context) error
	// ResourceVersions returns the resourceVersions of the stored objects, by key ("namespace/name").
	ResourceVersions() map[string]string
	// Get returns the stored object with the given key. The object is shared and read-only.
	Get(key string) (*corev1.Pod, bool)
	// AddIndex adds an index. It may be called at any time. It returns an error if the name is in use.
	AddIndex(name string, f IndexFunc) error
	// ByIndex returns the keys of the objects that the named index has under value, in any order.
	ByIndex(name, value string) ([]string, error)
	// Err returns the error that currently prevents the informer from being up to date, or nil. An
	// implementation that does not know this error returns an approximation, or always nil.
	Err() error
}

// Handler has the functions that an informer calls for changes, one call at a time. Any function
// may be nil. The objects are shared and read-only.
type Handler struct {
	// Added is called for an object that is new to the handler. initial reports whether the object is
	// part of the first list, or of the state at the handler's registration.
	Added func(pod *corev1.Pod, initial bool)
	// Updated is called for a changed object. old is the version that the handler received last. On a
	// resync, old and pod are the same version.
	Updated func(old, pod *corev1.Pod)
	// Deleted is called for a deleted object, with its final state or the last state that the informer
	// received.
	Deleted func(pod *corev1.Pod)
}

// HandlerOptions configure a handler. The zero value is valid.
type HandlerOptions struct {
	// Resync is the handler's resync period, which must not be shorter than Options.Resync. 0 means
	// Options.Resync.
	Resync time.Duration
}

// Registration represents a handler that is registered with an informer.
type Registration interface {
	// HasSynced reports whether the handler has returned from a call for every object of the first
	// list, or of the state at its registration.
	HasSynced() bool
	// Remove removes the handler: the informer does not call it for later changes. The handler itself
	// may call Remove.
	Remove() error
}
