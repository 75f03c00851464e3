package sim

import (
	"context"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// Values of ClientSpec.Runner: the implementations that a world can run.
const (
	Native   = "native"    // weir.NewInformer
	DropIn   = "drop-in"   // package clientgo
	ClientGo = "client-go" // client-go's own informer
	Chain    = "chain"     // a native informer that reads from watch caches
)

// informer is an implementation under test. Each adapter reports objects as representations: the
// version and schema of the bytes that a server sent.
type informer interface {
	// Run runs the informer until ctx ends. It returns when all goroutines that it started have ended.
	Run(ctx context.Context)
	// Handle registers h. The informer calls h.tell for each event.
	Handle(h *handler) (registration, error)
	HasSynced() bool
	// Err returns the informer's error, which says why it is not current. supported is false if the
	// implementation does not report errors.
	Err() (err error, supported bool)
	// Read returns the objects in the store, and reports differences between several ways to read
	// them. If that requires several reads, which may see different states, Read compares them only if
	// quiet is true: then nothing else runs.
	Read(quiet bool, report func(format string, args ...any)) view
	// Rest reports data that an informer at rest should have released, such as decoded objects.
	Rest(report func(format string, args ...any))
}

// waiter is an informer that can wait until it has reached a resourceVersion.
type waiter interface {
	WaitForResourceVersion(ctx context.Context, resourceVersion string) error
	// ResourceVersions returns the resourceVersion that each of the informer's reflectors has reached.
	ResourceVersions() []string
}

// view is the state of an informer's store.
type view struct {
	resourceVersion string // "" if the implementation does not report one
	objects         map[api.Key]api.Representation
}

// registration represents a registered handler.
type registration interface {
	HasSynced() bool
	Remove()
}

// event is one call of a handler.
type event struct {
	typ      eventType
	key      api.Key
	old, new object
	initial  bool
	final    bool // old is the final state, with the resourceVersion of the deletion
}

// object is an object that a handler or a read received.
type object struct {
	rep     api.Representation
	problem string // how the object differs from rep, or why rep is unknown; "" if neither
}

// eventType is the kind of an event that a handler receives.
type eventType uint8

const (
	added eventType = iota + 1
	updated
	deleted
	resynced
)

var eventTypeNames = [...]string{"", "Added", "Updated", "Deleted", "Resynced"}

func (t eventType) String() string { return eventTypeNames[t] }

// runners creates an informer of each implementation.
var runners = map[string]func(*api.Cluster, *api.Client, ClientSpec) (informer, error){Native: newNative, DropIn: newDropIn, ClientGo: newClientGo, Chain: newChain}
