package weir

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apiModule is where the built-in types are: each version of a group is a package.
const apiModule = "k8s.io/api/"

// irregularGroups are the groups that are not called as their directory is, followed by ".k8s.io".
var irregularGroups = map[string]string{
	"core": "", "apps": "apps", "autoscaling": "autoscaling", "batch": "batch", "extensions": "extensions", "policy": "policy",
	"apiserverinternal": "internal.apiserver.k8s.io",
	"flowcontrol":       "flowcontrol.apiserver.k8s.io",
	"rbac":              "rbac.authorization.k8s.io",
}

// builtinKind returns the kind of a built-in type. client-go's scheme would tell it too, but
// whoever links that links every built-in type.
func builtinKind(t reflect.Type) (gvk schema.GroupVersionKind, ok bool) {
	path, ok := strings.CutPrefix(t.PkgPath(), apiModule)
	directory, version, isVersion := strings.Cut(path, "/")
	if !ok || !isVersion {
		return gvk, false
	}
	group, irregular := irregularGroups[directory]
	if !irregular {
		group = directory + ".k8s.io"
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: t.Name()}, true
}
