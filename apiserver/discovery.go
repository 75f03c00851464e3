package apiserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/weirproject/weir/internal/core/request"
)

// serverVersion is the version of kube-apiserver that this server resembles. Clients choose their
// requests by it.
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

// acceptsAggregated reports whether the client accepts aggregated discovery.
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

// discoverable is a resource as discovery shows it.
type discoverable struct {
	Resource
	verbs []string
}

// discoverable returns all resources, including those that only answer a POST, sorted by group,
// version (preferred first) and name.
func (s *Server) discoverable() (out []discoverable) {
	for _, res := range s.registry.all() {
		out = append(out, discoverable{res.Resource, verbs})
	}
	for _, v := range reviews {
		out = append(out, discoverable{v.Resource, []string{"create"}})
	}
	slices.SortStableFunc(out, func(a, b discoverable) int { return cmp.Compare(a.Group, b.Group) })
	return out
}

// groups returns all groups but the core group.
func (s *Server) groups() []metav1.APIGroup {
	out := []metav1.APIGroup{}
	for _, res := range s.discoverable() {
		if res.Group == "" {
			continue
		}
		gv := metav1.GroupVersionForDiscovery{GroupVersion: res.GroupVersion().String(), Version: res.Version}
		if len(out) == 0 || out[len(out)-1].Name != res.Group {
			out = append(out, metav1.APIGroup{Name: res.Group, PreferredVersion: gv})
		}
		group := &out[len(out)-1]
		if !slices.Contains(group.Versions, gv) {
			group.Versions = append(group.Versions, gv)
		}
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
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for _, res := range s.discoverable() {
		if res.GroupVersion() != gv {
			continue
		}
		entry := metav1.APIResource{
			Name:         res.GroupVersionResource.Resource,
			SingularName: res.Singular,
			Namespaced:   res.Namespaced,
			Kind:         res.Kind,
			Verbs:        res.verbs,
			ShortNames:   res.ShortNames,
			Categories:   res.Categories,
		}
		list.APIResources = append(list.APIResources, entry)
		for _, sub := range res.subresources() {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: entry.Name + "/" + sub.name, Namespaced: res.Namespaced, Group: sub.gvk.Group, Version: sub.gvk.Version, Kind: sub.gvk.Kind,
				Verbs: sub.verbs})
		}
		if res.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: entry.Name + "/status", Namespaced: res.Namespaced, Kind: res.Kind, Verbs: statusVerbs})
		}
	}
	if len(list.APIResources) == 0 {
		return errPath()
	}
	writeJSON(w, "application/json", list)
	return nil
}

// aggregated returns the discovery document of the core group, or of all others.
func (s *Server) aggregated(core bool) *apidiscovery.APIGroupDiscoveryList {
	out := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, res := range s.discoverable() {
		if (res.Group == "") != core {
			continue
		}
		if n := len(out.Items); n == 0 || out.Items[n-1].Name != res.Group {
			out.Items = append(out.Items, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: res.Group}})
		}
		group := &out.Items[len(out.Items)-1]
		if n := len(group.Versions); n == 0 || group.Versions[n-1].Version != res.Version {
			group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{
				Version: res.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent})
		}
		v := &group.Versions[len(group.Versions)-1]
		v.Resources = append(v.Resources, res.aggregated())
	}
	return out
}

func (res discoverable) aggregated() apidiscovery.APIResourceDiscovery {
	scope := apidiscovery.ScopeCluster
	if res.Namespaced {
		scope = apidiscovery.ScopeNamespace
	}
	responseKind := &metav1.GroupVersionKind{Group: res.Group, Version: res.Version, Kind: res.Kind}
	d := apidiscovery.APIResourceDiscovery{
		Resource:         res.GroupVersionResource.Resource,
		ResponseKind:     responseKind,
		Scope:            scope,
		SingularResource: res.Singular,
		Verbs:            res.verbs,
		ShortNames:       res.ShortNames,
		Categories:       res.Categories,
	}
	for _, sub := range res.subresources() {
		kind := metav1.GroupVersionKind(sub.gvk)
		d.Subresources = append(d.Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: sub.name, ResponseKind: &kind, Verbs: sub.verbs})
	}
	if res.Status {
		d.Subresources = append(d.Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: "status", ResponseKind: responseKind, Verbs: statusVerbs})
	}
	return d
}
