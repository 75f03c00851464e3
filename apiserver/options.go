package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure a Server. The zero value is an empty server on a free port of loopback that
// serves the built-in kinds.
type Options struct {
	// Listen is the TCP address to listen on. Empty: 127.0.0.1:0, a free port.
	Listen string
	// Pods is the number of simulated pods at the start, on simulated nodes and in simulated
	// namespaces.
	Pods int
	// Population says how the simulated pods differ: "alike", which have the same fields; "unlike",
	// whose workloads each have fields and text of their own; "random", which have nothing in
	// common; "mixed", unlike ones among objects of some thirty kinds. Empty: alike. New fails for
	// any other.
	Population string
	// Seed makes the simulated pods, their uids and the churn reproducible. Any value will do.
	Seed uint64
	// Churn is the number of changes to simulated pods in a second, from New until StopChurn or
	// Close. They take the ordinary write path. Most change a status as a kubelet does; some delete
	// a pod and create another. 0: none.
	Churn float64
	// Resources are custom resources that are registered from the start.
	Resources []Resource
	// AnyNamespace has the server create objects in namespaces that do not exist. By default it
	// answers 404, as kube-apiserver does.
	AnyNamespace bool
	// Faults makes the server misbehave. It may be changed while the server runs. nil: none.
	Faults *Faults
	// LogBytes bounds the change log of each resource. A WATCH from a resourceVersion that is no
	// longer in it gets 410 Expired. 0: 8 MiB.
	LogBytes int64
	// BookmarkInterval is the time between two bookmarks of a watcher that allows them. 0: one
	// minute.
	BookmarkInterval time.Duration
	// MinWatch is the least duration of a WATCH without timeoutSeconds, which lasts a random time
	// between MinWatch and twice that. 0: 30 minutes.
	MinWatch time.Duration
}

// Resource is one version of a custom resource. Its objects are stored as JSON, as they were sent.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	ListKind   string   // empty: Kind + "List"
	Singular   string   // empty: Kind in lower case
	ShortNames []string // for example "po"
	Categories []string // for example "all"
	Namespaced bool
	// Status enables the status subresource. Then only it can change the status, and it changes
	// nothing else.
	Status bool
	// Scale enables the scale subresource. nil: none.
	Scale *Scale
	// Schema is the OpenAPI schema of an object, which kubectl explain shows and nothing enforces. It
	// must not be changed afterwards. nil: any object.
	Schema map[string]any
	// SelectableFields are field paths, such as "spec.color", that field selectors may name.
	SelectableFields []string
}
