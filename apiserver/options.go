package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options says what a server holds and how it behaves. The zero value is an empty server on a free
// port of loopback that knows the built-in kinds.
type Options struct {
	// Listen is the TCP address to listen on. Empty: 127.0.0.1:0, a free port.
	Listen string
	// Pods is how many simulated pods there are at the start. They run on simulated nodes in
	// simulated namespaces. Zero: none.
	Pods int
	// Seed makes the simulated pods, their uids and the churn reproducible. Any value will do.
	Seed uint64
	// Churn is how many of the simulated pods change in a second, through the ordinary write path:
	// most changes are a status as a kubelet reports it, and now and then a pod is deleted and
	// another created. It runs from New to StopChurn or Close. Zero: nothing changes.
	Churn float64
	// Resources are known from the start besides the built-in ones.
	Resources []Resource
	// Faults, when not nil, makes the server misbehave. It can be changed while the server runs.
	Faults *Faults
	// LogBytes bounds the change log of each resource. A WATCH from a resourceVersion that has left
	// it gets 410 Expired. Zero: 8 MiB.
	LogBytes int64
	// BookmarkInterval is how often a watcher that allows bookmarks gets one. Zero: a minute.
	BookmarkInterval time.Duration
	// MinWatch is the least time that a WATCH without timeoutSeconds lasts: a random time between
	// it and twice that. Zero: 30 minutes.
	MinWatch time.Duration
}

// Resource is a custom resource in one version. Its objects are kept as JSON, as they came.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	ListKind   string   // empty: Kind with "List" behind it
	Singular   string   // empty: Kind in lower case
	ShortNames []string // for example "po"
	Categories []string // for example "all"
	Namespaced bool
	// Status makes /status a subresource: it is then the only way to change status, and it changes
	// nothing else.
	Status bool
	// SelectableFields are field paths, such as "spec.color", that field selectors may name.
	SelectableFields []string
}
