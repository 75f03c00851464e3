package resource

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// find returns the resource for a name. Like kubectl, it accepts resource.version.group,
// resource.group, and a kind in the same two forms. It returns nil if the name matches nothing.
func find(lists []*metav1.APIResourceList, name string) (schema.GroupVersion, *metav1.APIResource) {
	full, part := schema.ParseResourceArg(strings.ToLower(name))
	wanted := []schema.GroupVersionResource{part.WithVersion("")}
	if full != nil {
		wanted = slices.Insert(wanted, 0, *full)
	}
	for _, called := range []func(*metav1.APIResource, string) bool{byName, byShortName, byKind} {
		for _, w := range wanted {
			for _, inGroup := range []func(group, want string) bool{sameGroup, strings.HasPrefix} {
				if gv, r := first(lists, w, inGroup, called); r != nil {
					return gv, r
				}
			}
		}
	}
	return schema.GroupVersion{}, nil
}

// first returns the first resource with the wanted name, in a matching group and version.
func first(lists []*metav1.APIResourceList, wanted schema.GroupVersionResource, inGroup func(group, want string) bool,
	called func(*metav1.APIResource, string) bool) (schema.GroupVersion, *metav1.APIResource) {
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || wanted.Version != "" && gv.Version != wanted.Version || !inGroup(gv.Group, wanted.Group) {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !strings.Contains(r.Name, "/") && called(r, wanted.Resource) {
				return gv, r
			}
		}
	}
	return schema.GroupVersion{}, nil
}

// sameGroup reports whether a group is the one that was named, if one was.
func sameGroup(group, want string) bool { return want == "" || group == want }

func byName(r *metav1.APIResource, name string) bool {
	return name == r.Name || name == singular(r)
}

// singular returns the singular name. Servers before 1.28 do not send it for all resources; then it
// is guessed from the kind.
func singular(r *metav1.APIResource) string {
	if r.SingularName != "" {
		return r.SingularName
	}
	_, guessed := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: r.Kind})
	return guessed.Resource
}

func byShortName(r *metav1.APIResource, name string) bool { return slices.Contains(r.ShortNames, name) }

func byKind(r *metav1.APIResource, name string) bool { return name == strings.ToLower(r.Kind) }
