package sim

import (
	"context"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// Runners are what is run in a world.
const (
	Native   = "native"    // weir.NewInformer
	DropIn   = "drop-in"   // package clientgo
	ClientGo = "client-go" // client-go's own
	Chain    = "chain"     // a native informer on watch caches
)

// informer is an implementation under test. It reports its objects as representations: what a
// server made of a version.
type informer interface {
	// Run serves until ctx ends, and returns when all that it started has ended.
	Run(ctx context.Context)
	// Handle registers a handler, whose tell is called with what happens.
	Handle(h *handler) (registration, error)
	HasSynced() bool
	// Err is why the informer is not current. supported is false for an implementation that
	// cannot tell.
	Err() (err error, supported bool)
	// Read reads everything. Where several reads cannot be of one moment, they are made and
	// compared only if it is quiet.
	Read(quiet bool, report func(format string, args ...any)) view
	// Rest reports what an informer that has come to rest should not hold any more.
	Rest(report func(format string, args ...any))
}

// waiter is an informer that can wait for a resourceVersion.
type waiter interface {
	WaitForResourceVersion(ctx context.Context, resourceVersion string) error
	// ResourceVersions returns those that its reflectors are current to.
	ResourceVersions() []string
}

// view is what an informer holds.
type view struct {
	resourceVersion string // "" where the implementation does not tell
	objects         map[api.Key]api.Representation
}

// registration is a handler that was registered.
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
	final    bool // a DELETED event's object, whose resourceVersion is that of the end
}

// object is what a handler or a read was given.
type object struct {
	rep     api.Representation
	problem string // why it is no representation; what is wrong with it
}

// eventType is what happened to an object, as a handler sees it.
type eventType uint8

const (
	added eventType = iota + 1
	updated
	deleted
	resynced
)

var eventTypeNames = [...]string{"", "Added", "Updated", "Deleted", "Resynced"}

func (t eventType) String() string { return eventTypeNames[t] }

// runners make informers.
var runners = map[string]func(*api.Cluster, *api.Client, ClientSpec) (informer, error){Native: newNative, DropIn: newDropIn, ClientGo: newClientGo, Chain: newChain}
