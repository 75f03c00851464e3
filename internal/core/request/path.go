package request

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path is the parsed path of a URL that names a resource.
type Path struct {
	// Prefix is "watch" or "proxy" in deprecated paths, such as /api/v1/watch/pods. Otherwise it is
	// empty.
	Prefix                   string
	Group, Version, Resource string
	// Namespace is the path segment after "namespaces". It is empty for the path of a namespace
	// itself.
	Namespace   string
	Name        string // empty for a collection
	Subresource string
	// More is true if further segments follow the subresource.
	More bool
}

// maxSegments is the maximum number of segments into which ParsePath splits a path. The last one
// contains the rest.
const maxSegments = 10

// ParsePath parses a path as kube-apiserver does, and ignores slashes at both ends. ok is false for
// a path that names no resource.
func ParsePath(path string) (p Path, ok bool) {
	parts := strings.SplitN(strings.Trim(path, "/"), "/", maxSegments)
	switch {
	case parts[0] == "api" && len(parts) > 2:
		p.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		p.Group, p.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return Path{}, false
	}
	if parts[0] == "watch" || parts[0] == "proxy" {
		if p.Prefix, parts = parts[0], parts[1:]; len(parts) == 0 {
			return Path{}, false
		}
	}
	// Below the name of a namespace, "status" and "finalize" are subresources. Any other segment is a
	// resource.
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		p.Namespace, parts = parts[1], parts[2:]
	}
	p.Resource = parts[0]
	if len(parts) > 1 {
		p.Name = parts[1]
	}
	if len(parts) > 2 && p.Prefix != "proxy" {
		p.Subresource = parts[2]
	}
	p.More = len(parts) > 3
	return p, true
}

// CollectionOf parses the path of a collection. The path may have a prefix, as on a server behind a
// gateway. ok is false if path is not the path of a collection.
func CollectionOf(path string) (p Path, ok bool) {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		p, ok := ParsePath(path[i:])
		if ok && p.Prefix == "" && p.Name == "" && p.Resource != "" && p.Version != "" {
			return p, true
		}
	}
	return Path{}, false
}

// GVR returns the group, version and resource of p.
func (p *Path) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: p.Group, Version: p.Version, Resource: p.Resource}
}

// String returns the usual spelling of the path of a collection or an object. It omits Prefix and
// Subresource.
func (p *Path) String() string {
	s := "/api/" + p.Version
	if p.Group != "" {
		s = "/apis/" + p.Group + "/" + p.Version
	}
	if p.Namespace != "" {
		s += "/namespaces/" + p.Namespace
	}
	s += "/" + p.Resource
	if p.Name != "" {
		s += "/" + p.Name
	}
	return s
}

// isStrict reports whether u is the usual spelling of p as a collection or an object, and contains
// only bytes that every client writes unescaped. So a path with a subresource, a deprecated prefix,
// escapes or extra slashes is not strict.
func (p *Path) isStrict(u *url.URL) bool {
	return u.RawPath == "" && u.Path == p.String() && !p.isReserved() &&
		(p.Group == "" || isName(p.Group, groupByte)) && isName(p.Version, labelByte) && isName(p.Resource, labelByte) &&
		(p.Namespace == "" || isName(p.Namespace, labelByte)) && (p.Name == "" || isName(p.Name, nameByte))
}

// isReserved reports whether kube-apiserver does not read p.Resource as the name of a resource. It
// may be the verb of a deprecated path, or a subresource of the namespace before it. "namespaces"
// is no resource in a named group or inside a namespace.
func (p *Path) isReserved() bool {
	switch p.Resource {
	case "watch", "proxy", "status", "finalize":
		return true
	case "namespaces":
		return p.Group != "" || p.Namespace != ""
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
