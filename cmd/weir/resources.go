package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errUnknownResource is wrapped by findResource if the server has no such resource.
var errUnknownResource = errors.New("the server has no such resource")

// errNotWatchable is wrapped by findResource if the resource cannot be listed and watched.
var errNotWatchable = errors.New("the resource cannot be listed and watched")

// serverResource is a resource that a server offers.
type serverResource struct {
	schema.GroupVersionResource
	Kind       schema.GroupVersionKind
	Singular   string // such as "pod"
	Namespaced bool
}

// String returns the resource's plural name, followed by its group if it has one: "pods",
// "deployments.apps".
func (r serverResource) String() string { return r.GroupResource().String() }

// named returns the name of n objects: "pod" or "deployment.apps" if n is 1, and otherwise
// the plural.
func (r serverResource) named(n int) string {
	if n != 1 || r.Singular == "" {
		return r.String()
	}
	return schema.GroupResource{Group: r.Group, Resource: r.Singular}.String()
}

// findResource returns the resource with a name. Like kubectl, it accepts the plural, singular or
// short name, alone or followed by a version and a group. lists are the server's resources, in the
// order of preference. The error wraps errNotWatchable or errUnknownResource. With
// errUnknownResource it also suggests a similar name, if there is one.
func findResource(lists []*metav1.APIResourceList, name string) (serverResource, error) {
	gv, found := lookUp(lists, name)
	if found == nil {
		return serverResource{}, fmt.Errorf("%w: %q%s", errUnknownResource, name, didYouMean(name, lists))
	}
	r := serverResource{
		GroupVersionResource: gv.WithResource(found.Name),
		Kind:                 gv.WithKind(found.Kind),
		Singular:             singular(found),
		Namespaced:           found.Namespaced,
	}
	if !slices.Contains(found.Verbs, "list") || !slices.Contains(found.Verbs, "watch") {
		return serverResource{}, fmt.Errorf("%w: %s", errNotWatchable, r)
	}
	return r, nil
}

// didYouMean returns a suggestion: the name that is most similar to the typed one. It returns "" if
// no name is similar.
func didYouMean(typed string, lists []*metav1.APIResourceList) string {
	typed, group, _ := strings.Cut(strings.ToLower(typed), ".")
	best, distance := "", max(1, len(typed)/3)+1
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, res := range list.APIResources {
			if strings.Contains(res.Name, "/") || !slices.Contains(res.Verbs, "watch") {
				continue
			}
			for _, name := range append([]string{res.Name, res.SingularName}, res.ShortNames...) {
				if d := editDistance(typed, name); name != "" && d < distance {
					distance, best = d, res.Name
					// The user typed a group, so the suggestion has one.
					if group != "" && gv.Group != "" {
						best += "." + gv.Group
					}
				}
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance returns the smallest number of edits that turn a into b. An edit changes, adds or
// removes a letter, or swaps two neighbouring letters.
func editDistance(a, b string) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// lookUp returns the resource with a name, or nil. Like kubectl, it accepts resource.version.group,
// resource.group, and a kind in the same two forms.
func lookUp(lists []*metav1.APIResourceList, name string) (schema.GroupVersion, *metav1.APIResource) {
	full, part := schema.ParseResourceArg(strings.ToLower(name))
	wanted := []schema.GroupVersionResource{part.WithVersion("")}
	if full != nil {
		wanted = slices.Insert(wanted, 0, *full)
	}
	for _, called := range []func(*metav1.APIResource, string) bool{byName, byShortName, byKind} {
		for _, w := range wanted {
			for _, inGroup := range []func(group, want string) bool{sameGroup, strings.HasPrefix} {
				if gv, r := firstMatch(lists, w, inGroup, called); r != nil {
					return gv, r
				}
			}
		}
	}
	return schema.GroupVersion{}, nil
}

// firstMatch returns the first resource with the wanted name, group and version.
func firstMatch(lists []*metav1.APIResourceList, wanted schema.GroupVersionResource, inGroup func(group, want string) bool,
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

// sameGroup reports whether group equals want, or want is empty.
func sameGroup(group, want string) bool { return want == "" || group == want }

func byName(r *metav1.APIResource, name string) bool {
	return name == r.Name || name == singular(r)
}

// singular returns the resource's singular name. Servers before 1.28 omit some singular names;
// singular then derives the name from the kind.
func singular(r *metav1.APIResource) string {
	if r.SingularName != "" {
		return r.SingularName
	}
	_, guessed := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: r.Kind})
	return guessed.Resource
}

func byShortName(r *metav1.APIResource, name string) bool { return slices.Contains(r.ShortNames, name) }

func byKind(r *metav1.APIResource, name string) bool { return name == strings.ToLower(r.Kind) }
