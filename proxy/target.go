package proxy

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target is what a path names: a resource, in all namespaces or one, or one object.
type target struct {
	gvr       schema.GroupVersionResource
	namespace string // empty: none in the path
	name      string // empty: a collection
}

// targetOf parses a path. It accepts one spelling of each target and refuses everything else, which
// is forwarded: unknown paths, subresources, the old watch paths, escapes and extra slashes.
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

// reserved reports whether kube-apiserver reads a resource's name as something else: the verb of an
// old path, a subresource of the namespace before it, or the core group's namespaces in another
// group.
func reserved(r schema.GroupResource) bool {
	switch r.Resource {
	case "watch", "proxy", "status", "finalize":
		return true
	case "namespaces":
		return r.Group != ""
	}
	return false
}

// isName reports whether a path segment consists of bytes that ok accepts, and is not empty, "." or
// "..".
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

// nameByte reports whether all clients write this byte of an object's name unescaped.
func nameByte(b byte) bool { return groupByte(b) || b >= 'A' && b <= 'Z' || b == '_' || b == ':' }
