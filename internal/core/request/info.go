package request

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// Info says what a request does to what, as kube-apiserver's RequestInfo does. Metrics, limits and
// audit records use it.
type Info struct {
	Path // empty if the request is not for a resource
	// OfResource reports whether the path names a resource.
	OfResource bool
	URLPath    string // unparsed
	// Verb is the verb that authorizers see, such as list. It is the HTTP method in lower case for
	// paths that name no resource.
	Verb string
	// Selected is the name that the field selector of a LIST or WATCH requires, or "".
	Selected string
}

// InfoOf parses a request's method and path, and of its query no more than the parameters watch and
// fieldSelector. Its result shares the memory of u.
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
	case method != http.MethodGet && method != http.MethodHead: // kube-apiserver knows no verb for it
	case info.Name != "":
		info.Verb = "get"
	default:
		q := QueryOf(u)
		info.setList(q.Flag("watch"), q.selectedName())
	}
	return info
}

// setList sets the verb of a LIST or WATCH, unless the path is a deprecated one, and the name that
// its field selector requires.
func (i *Info) setList(watch bool, selected string) {
	switch {
	case i.Prefix != "":
	case watch:
		i.Verb, i.Selected = "watch", selected
	default:
		i.Verb, i.Selected = "list", selected
	}
}

// ReviewName returns the name that authorizers see.
func (i *Info) ReviewName() string { return cmp.Or(i.Name, i.Selected) }

// ReviewNamespace returns the namespace that authorizers see. For them a namespace is in itself.
func (i *Info) ReviewNamespace() string {
	if i.Namespace == "" && i.Resource == "namespaces" {
		return i.Name
	}
	return i.Namespace
}
