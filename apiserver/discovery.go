package apiserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/weirproject/weir/internal/core/request"
)

// serverVersion is the version that the server reports at /version: the version of kube-apiserver
// whose behaviour it imitates. Some clients choose their requests by this version.
var serverVersion = version.Info{
	Major:        "1",
	Minor:        "37",
	GitVersion:   "v1.37.2+weir",
	GitTreeState: "clean",
	Platform:     "embedded",
}

// aggregatedType is the media type of an aggregated discovery document.
const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func writeJSON(w http.ResponseWriter, contentType string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text) // an error means that the client has disconnected
}

// acceptsAggregated reports whether the client accepts the aggregated discovery document.
func acceptsAggregated(r *http.Request) bool {
	for name, params := range request.MediaRanges(r.Header) {
		if name == "application/json" && params["g"] == "apidiscovery.k8s.io" && params["v"] == "v2" && params["as"] == "APIGroupDiscoveryList" {
			return true
		}
	}
	return false
}

// discoverRoot answers /api (core) and /apis.
func (s *Server) discoverRoot(w http.ResponseWriter, r *http.Request, core bool) {
	switch {
	case acceptsAggregated(r):
		writeJSON(w, aggregatedType, s.aggregated(core))
	case core:
		writeJSON(w, "application/json", &metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
			Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
				{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		})
	default:
		writeJSON(w, "application/json", &metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups:   s.groups(),
		})
	}
}

// aggregated returns the aggregated discovery document of the core group, or of all other groups.
// The document includes reviews, which only support POST. Groups are sorted by name, and versions
// by preference.
func (s *Server) aggregated(core bool) *apidiscovery.APIGroupDiscoveryList {
	groups := map[string]*apidiscovery.APIGroupDiscovery{}
	add := func(r *Resource, verbs []string) {
		if (r.Group == "") != core {
			return
		}
		group := groups[r.Group]
		if group == nil {
			group = &apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: r.Group}}
			groups[r.Group] = group
		}
		if n := len(group.Versions); n == 0 || group.Versions[n-1].Version != r.Version {
			group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{
				Version: r.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent})
		}
		v := &group.Versions[len(group.Versions)-1]
		v.Resources = append(v.Resources, r.discovery(verbs))
	}
	for _, res := range s.registry.all() {
		add(&res.Resource, verbs)
	}
	for _, v := range reviews {
		add(&v.Resource, []string{"create"})
	}
	out := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		out.Items = append(out.Items, *groups[name])
	}
	return out
}

// discovery returns the entry of a resource and its subresources in aggregated discovery.
func (r *Resource) discovery(verbs []string) apidiscovery.APIResourceDiscovery {
	d := apidiscovery.APIResourceDiscovery{
		Resource:         r.GroupVersionResource.Resource,
		ResponseKind:     &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		Scope:            apidiscovery.ScopeCluster,
		SingularResource: r.Singular,
		Verbs:            verbs,
		ShortNames:       r.ShortNames,
		Categories:       r.Categories,
	}
	if r.Namespaced {
		d.Scope = apidiscovery.ScopeNamespace
	}
	for _, sub := range r.subresources() {
		kind := metav1.GroupVersionKind(sub.gvk)
		d.Subresources = append(d.Subresources, apidiscovery.APISubresourceDiscovery{Subresource: sub.name, ResponseKind: &kind, Verbs: sub.verbs})
	}
	if r.Status {
		d.Subresources = append(d.Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: "status", ResponseKind: d.ResponseKind, Verbs: statusVerbs})
	}
	return d
}

// groups returns all groups except the core group, in the form that clients without aggregated
// discovery read.
func (s *Server) groups() []metav1.APIGroup {
	out := []metav1.APIGroup{}
	for _, found := range s.aggregated(false).Items {
		group := metav1.APIGroup{Name: found.Name}
		for _, v := range found.Versions {
			gv := schema.GroupVersion{Group: found.Name, Version: v.Version}
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v.Version})
		}
		group.PreferredVersion = group.Versions[0]
		out = append(out, group)
	}
	return out
}

// discoverGroup answers /apis/GROUP.
func (s *Server) discoverGroup(w http.ResponseWriter, name string) error {
	for _, g := range s.groups() {
		if g.Name == name {
			g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			writeJSON(w, "application/json", &g)
			return nil
		}
	}
	return errPath()
}

// discoverVersion answers /api/v1 and /apis/GROUP/VERSION.
func (s *Server) discoverVersion(w http.ResponseWriter, gv schema.GroupVersion) error {
	for _, group := range s.aggregated(gv.Group == "").Items {
		for _, v := range group.Versions {
			if group.Name == gv.Group && v.Version == gv.Version {
				writeJSON(w, "application/json", resourceList(gv, v.Resources))
				return nil
			}
		}
	}
	return errPath()
}

// resourceList returns the resources of a version in the form that clients without aggregated
// discovery read.
func resourceList(gv schema.GroupVersion, resources []apidiscovery.APIResourceDiscovery) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for i := range resources {
		r := &resources[i]
		namespaced := r.Scope == apidiscovery.ScopeNamespace
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Resource, SingularName: r.SingularResource, Namespaced: namespaced, Kind: r.ResponseKind.Kind,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
		for _, sub := range r.Subresources {
			entry := metav1.APIResource{Name: r.Resource + "/" + sub.Subresource, Namespaced: namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs}
			if *sub.ResponseKind != *r.ResponseKind {
				entry.Group, entry.Version = sub.ResponseKind.Group, sub.ResponseKind.Version
			}
			list.APIResources = append(list.APIResources, entry)
		}
	}
	return list
}
