// Package resource finds the resource for a user's input: its plural, singular or short name, alone
// or followed by a version and a group, as in kubectl.
package resource

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrUnknown is returned by Find if the server has no such resource.
var ErrUnknown = errors.New("the server has no such resource")

// ErrNotWatchable is returned by Find if the resource cannot be listed and watched.
var ErrNotWatchable = errors.New("the resource cannot be listed and watched")

// Resource is a resource of a server.
type Resource struct {
	schema.GroupVersionResource
	Kind       schema.GroupVersionKind
	Namespaced bool
}

// String returns the resource's plural name, followed by its group if it has one: "pods",
// "deployments.apps".
func (r Resource) String() string { return r.GroupResource().String() }

// Find returns the resource for name in the lists of a server's resources, which are in the order
// of preference. If there is none, the error is an ErrUnknown that suggests a similar name. If the
// resource cannot be listed and watched, the error is an ErrNotWatchable.
func Find(lists []*metav1.APIResourceList, name string) (Resource, error) {
	gv, found := find(lists, name)
	if found == nil {
		return Resource{}, fmt.Errorf("%w: %q%s", ErrUnknown, name, didYouMean(name, lists))
	}
	r := Resource{
		GroupVersionResource: gv.WithResource(found.Name),
		Kind:                 gv.WithKind(found.Kind),
		Namespaced:           found.Namespaced,
	}
	if !slices.Contains(found.Verbs, "list") || !slices.Contains(found.Verbs, "watch") {
		return Resource{}, fmt.Errorf("%w: %s", ErrNotWatchable, r)
	}
	return r, nil
}

// didYouMean returns a suggestion of the name that is nearest to the typed one, or "" if none is
// near.
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
					// The user typed a group, so it is part of the name.
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

// editDistance returns how many letters must be changed, added, removed or swapped with their
// neighbour to make b of a.
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
