package request

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// Info is the verb and the resource of a request, as in kube-apiserver's RequestInfo. Metrics,
// limits and audit records use it.
type Info struct {
	Path // empty if the request is not for a resource
	// OfResource is true if the path names a resource.
	OfResource bool
	URLPath    string // the unparsed path
	// Verb is the verb that authorizers receive, such as list. For a path that names no resource it
	// is the HTTP method in lower case.
	Verb string
	// Selected is the name that the field selector of a LIST or WATCH requires, or "".
	Selected string
}

// InfoOf parses a request's method and path. Of the query it parses at most the parameters watch
// and fieldSelector. The result shares the memory of u.
func InfoOf(method string, u *url.URL) *Info {
	info := &Info{URLPath: u.Path}
	info.Path, info.OfResource = ParsePath(u.Path)
	switch {
	case !info.OfResource:
		info.Verb = strings.ToLower(method)
	case info.Prefix != "":
		info.Verb = info.Prefix
	case method == http.MethodPost:
		info.Verb = "create"
	case method == http.MethodPut:
		info.Verb = "update"
	case method == http.MethodPatch:
		info.Verb = "patch"
	case method == http.MethodDelete && info.Name == "":
		info.Verb = "deletecollection"
	case method == http.MethodDelete:
		info.Verb = "delete"
	// kube-apiserver has no verb for other methods
	case method != http.MethodGet && method != http.MethodHead:
	case info.Name != "":
		info.Verb = "get"
	default:
		q := QueryOf(u)
		info.setList(q.Flag("watch"), q.selectedName())
	}
	return info
}

// setList sets the verb of a LIST or WATCH, and the name that its field selector requires. If the
// path is a deprecated one, such as /api/v1/watch/pods, the verb is already set, and setList is a
// no-op.
func (i *Info) setList(watch bool, selected string) {
	switch {
	case i.Prefix != "":
	case watch:
		i.Verb, i.Selected = "watch", selected
	default:
		i.Verb, i.Selected = "list", selected
	}
}

// ReviewName returns the name of the object for authorizers: the name in the path or, if there is
// none, the name that the field selector requires.
func (i *Info) ReviewName() string { return cmp.Or(i.Name, i.Selected) }

// ReviewNamespace returns the namespace for authorizers. If the object is itself a namespace, it
// returns the object's name.
func (i *Info) ReviewNamespace() string {
	if i.Namespace == "" && i.Resource == "namespaces" {
		return i.Name
	}
	return i.Namespace
}
