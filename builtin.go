package weir

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apiModule is the module of the built-in types. It has one package per version of a group.
const apiModule = "k8s.io/api/"

// irregularGroups maps the directory of a group to the group's name. It omits the regular groups:
// the name of such a group is the directory's name followed by ".k8s.io".
var irregularGroups = map[string]string{
	"core": "", "apps": "apps", "autoscaling": "autoscaling", "batch": "batch", "extensions": "extensions", "policy": "policy",
	"apiserverinternal": "internal.apiserver.k8s.io",
	"flowcontrol":       "flowcontrol.apiserver.k8s.io",
	"rbac":              "rbac.authorization.k8s.io",
}

// builtinKind returns the kind of a built-in type. ok is false for any other type. It does not use
// client-go's scheme, which has the same information, because a program that imports the scheme
// links every built-in type.
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
