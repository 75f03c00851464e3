package apiserver

import (
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/columns"
)

// Options configure a Server. The zero value configures a server that serves the built-in kinds
// without simulated objects, on a free loopback port.
type Options struct {
	// Listen is the TCP address to listen on. The default is 127.0.0.1:0, a free port.
	Listen string
	// Pods is the number of simulated pods at the start. The server also creates their namespaces.
	Pods int
	// Population selects how the simulated pods differ. With "alike", all pods have the same fields.
	// With "unlike", fields and texts differ per workload. With "random", pods have nothing in common.
	// With "mixed", pods are as with "unlike", and the server also creates objects of about thirty
	// other kinds. The default is "alike". New returns an error for any other value.
	Population string
	// Seed makes the simulated pods, their uids and the churn reproducible.
	Seed uint64
	// Churn is the number of changes to simulated pods per second, from New until StopChurn or Close.
	// Watchers receive these changes like the changes of clients. Most of them change a status, as a
	// kubelet does; some delete a pod and create another pod. The default is no churn.
	Churn float64
	// Resources are custom resources to register at the start.
	Resources []Resource
	// AnyNamespace lets clients create objects in namespaces that do not exist. By default, the server
	// answers 404 to such a request, like kube-apiserver.
	AnyNamespace bool
	// Faults makes the server fail on purpose. The caller may change the Faults while the server runs.
	// The default is no faults.
	Faults *Faults
	// AuditLog receives an event of audit.k8s.io/v1, of the level Metadata, for each response and for
	// the start of each watch. The server calls Write with one line at a time, never concurrently, and
	// never after Close has returned. If Write returns an error, the server answers the request
	// nevertheless, and counts the error in the metric apiserver_audit_error_total. The default is no
	// audit log.
	AuditLog io.Writer
	// LogBytes limits the change log of each resource. A WATCH from a resourceVersion that the log no
	// longer contains receives 410 Expired. The default is 8 MiB.
	LogBytes int64
	// BookmarkInterval is the time between two bookmarks of a watch that requests bookmarks. The
	// default is one minute.
	BookmarkInterval time.Duration
	// MinWatch is the shortest duration of a WATCH without timeoutSeconds. Such a WATCH lasts a random
	// time between MinWatch and twice MinWatch. The default is 30 minutes.
	MinWatch time.Duration
}

// Resource is one version of a custom resource. The server stores its objects as JSON, with all
// fields that clients send.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	ListKind   string   // "" means Kind + "List"
	Singular   string   // "" means Kind in lower case
	ShortNames []string // for example "po"
	Categories []string // for example "all"
	Namespaced bool
	// Status enables the status subresource. Only a write of this subresource then changes the status,
	// and such a write changes nothing else.
	Status bool
	// Scale enables the scale subresource. nil means that the resource has none.
	Scale *Scale
	// Schema is the OpenAPI schema of an object. kubectl explain shows it; the server does not enforce
	// it. The caller must not change it after New or Register. nil means a schema without fields.
	Schema map[string]any
	// SelectableFields are field paths, such as "spec.color", that field selectors may name.
	SelectableFields []string

	columns []columns.Definition // of a Table; none: Name and Age
}
