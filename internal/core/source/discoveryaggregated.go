package source

import (
	"errors"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrStale is returned for a group version of an aggregated API server that the kube-apiserver
// cannot reach.
var ErrStale = errors.New("its server does not answer the API server")

// appendAggregated appends the versions of a group with their resources. The server lists the
// versions in its order of preference.
func appendAggregated(versions []groupVersion, g *apidiscovery.APIGroupDiscovery) []groupVersion {
	for i := range g.Versions {
		found := &g.Versions[i]
		v := groupVersion{GroupVersion: schema.GroupVersion{Group: g.Name, Version: found.Version}}
		if found.Freshness == apidiscovery.DiscoveryFreshnessStale {
			v.err = ErrStale
		} else {
			v.resources = &metav1.APIResourceList{GroupVersion: v.String()}
			for i := range found.Resources {
				v.resources.APIResources = appendResource(v.resources.APIResources, &found.Resources[i])
			}
		}
		versions = append(versions, v)
	}
	return versions
}

// appendResource appends a resource and its subresources, in the form that an APIResourceList has.
// A resource without a kind is listed only because of its subresources, so appendResource omits it.
func appendResource(to []metav1.APIResource, r *apidiscovery.APIResourceDiscovery) []metav1.APIResource {
	of := metav1.APIResource{
		Name:         r.Resource,
		SingularName: r.SingularResource,
		Namespaced:   r.Scope == apidiscovery.ScopeNamespace,
		ShortNames:   r.ShortNames,
		Categories:   r.Categories,
		Verbs:        r.Verbs,
	}
	if setKind(&of, r.ResponseKind) {
		to = append(to, of)
	}
	for _, s := range r.Subresources {
		sub := metav1.APIResource{Name: of.Name + "/" + s.Subresource, SingularName: of.SingularName, Namespaced: of.Namespaced, Verbs: s.Verbs}
		if setKind(&sub, s.ResponseKind) {
			to = append(to, sub)
		}
	}
	return to
}

// setKind sets r's kind. It returns false, and changes nothing, if kind is nil or empty.
func setKind(r *metav1.APIResource, kind *metav1.GroupVersionKind) bool {
	if kind == nil || *kind == (metav1.GroupVersionKind{}) {
		return false
	}
	r.Group, r.Version, r.Kind = kind.Group, kind.Version, kind.Kind
	return true
}
