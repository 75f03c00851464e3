package proxy

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target is what a path names: a resource, all of it or in one namespace, or one object of it.
type target struct {
	gvr       schema.GroupVersionResource
	namespace string // empty: the path has none
	name      string // empty: the path names a collection
}

// targetOf reads a path. It knows one spelling of each target and refuses everything else: what
// kube-apiserver does not serve, what it takes for a subresource or an old way to watch, escapes,
// slashes too many. What is refused is answered upstream.
func targetOf(u *url.URL) (t target, ok bool) {
	if u.RawPath != "" || !strings.HasPrefix(u.Path, "/") {
		return t, false
	}
	parts := strings.Split(u.Path[1:], "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		t.gvr.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3 && isName(parts[1], groupByte):
		t.gvr.Group, t.gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		t.namespace, parts = parts[1], parts[2:]
		if !isName(t.namespace, labelByte) || parts[0] == "namespaces" {
			return t, false
		}
	}
	if len(parts) == 2 {
		t.name = parts[1]
		if !isName(t.name, nameByte) {
			return t, false
		}
	}
	t.gvr.Resource = parts[0]
	ok = len(parts) <= 2 && isName(t.gvr.Version, labelByte) && isName(t.gvr.Resource, labelByte) && !reserved(t.gvr.GroupResource())
	return t, ok
}

// reserved reports whether kube-apiserver reads the name of a resource as something else: the verb
// of an old path, a subresource of the namespace in front of it, or, in the place of a resource of
// any group, the namespaces of the core.
func reserved(r schema.GroupResource) bool {
	switch r.Resource {
	case "watch", "proxy", "status", "finalize":
		return true
	case "namespaces":
		return r.Group != ""
	}
	return false
}

// isName reports whether a part of a path has only such bytes, and is not empty and no step up or
// down.
func isName(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return s != "" && s != "." && s != ".."
}

func labelByte(b byte) bool { return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' }

func groupByte(b byte) bool { return labelByte(b) || b == '.' }

// nameByte reports whether a byte of an object's name is written in a path as it is, by everybody.
func nameByte(b byte) bool { return groupByte(b) || b >= 'A' && b <= 'Z' || b == '_' || b == ':' }
