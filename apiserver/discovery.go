package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// serverVersion is the kube-apiserver that this one resembles. Clients choose by it what they ask for.
var serverVersion = version.Info{
	Major:        "1",
	Minor:        "37",
	GitVersion:   "v1.37.1+weir",
	GitTreeState: "clean",
	Platform:     "embedded",
}

// aggregatedType is the media type of a discovery document of everything.
const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func writeJSON(w http.ResponseWriter, contentType string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text) // the client has gone: nobody to tell
}

// acceptsAggregated says whether the client wants the one document.
func acceptsAggregated(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		words := strings.Split(strings.ReplaceAll(part, " ", ""), ";")
		if words[0] == "application/json" && slices.Contains(words, "g=apidiscovery.k8s.io") && slices.Contains(words, "v=v2") &&
			slices.Contains(words, "as=APIGroupDiscoveryList") {
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

// groups are all but the core group.
func (s *Server) groups() []metav1.APIGroup {
	out := []metav1.APIGroup{}
	for _, k := range s.registry.all() {
		if k.Group == "" {
			continue
		}
		gv := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		if len(out) == 0 || out[len(out)-1].Name != k.Group {
			out = append(out, metav1.APIGroup{Name: k.Group, PreferredVersion: gv})
		}
		group := &out[len(out)-1]
		if !slices.Contains(group.Versions, gv) {
			group.Versions = append(group.Versions, gv)
		}
	}
	return out
}

// discoverGroup answers /apis/GROUP.
func (s *Server) discoverGroup(w http.ResponseWriter, r *http.Request, name string) {
	for _, g := range s.groups() {
		if g.Name == name {
			g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			writeJSON(w, "application/json", &g)
			return
		}
	}
	notFound(w, r)
}

// discoverVersion answers /api/v1 and /apis/GROUP/VERSION.
func (s *Server) discoverVersion(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
	}
	for _, k := range s.registry.all() {
		if k.GroupVersion() != gv {
			continue
		}
		entry := metav1.APIResource{
			Name:         k.GroupVersionResource.Resource,
			SingularName: k.Singular,
			Namespaced:   k.Namespaced,
			Kind:         k.Kind,
			Verbs:        verbs,
			ShortNames:   k.ShortNames,
			Categories:   k.Categories,
		}
		list.APIResources = append(list.APIResources, entry)
		if k.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: entry.Name + "/status", Namespaced: k.Namespaced, Kind: k.Kind, Verbs: statusVerbs})
		}
	}
	if len(list.APIResources) == 0 {
		notFound(w, r)
		return
	}
	writeJSON(w, "application/json", list)
}

// aggregated is one document of all resources: of the core group, or of all others.
func (s *Server) aggregated(core bool) *apidiscovery.APIGroupDiscoveryList {
	out := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, k := range s.registry.all() {
		if (k.Group == "") != core {
			continue
		}
		if n := len(out.Items); n == 0 || out.Items[n-1].Name != k.Group {
			out.Items = append(out.Items, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: k.Group}})
		}
		group := &out.Items[len(out.Items)-1]
		if n := len(group.Versions); n == 0 || group.Versions[n-1].Version != k.Version {
			group.Versions = append(group.Versions, apidiscovery.APIVersionDiscovery{
				Version: k.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent})
		}
		v := &group.Versions[len(group.Versions)-1]
		v.Resources = append(v.Resources, k.aggregated())
	}
	return out
}

func (k *kind) aggregated() apidiscovery.APIResourceDiscovery {
	scope := apidiscovery.ScopeCluster
	if k.Namespaced {
		scope = apidiscovery.ScopeNamespace
	}
	responseKind := &metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
	d := apidiscovery.APIResourceDiscovery{
		Resource:         k.GroupVersionResource.Resource,
		ResponseKind:     responseKind,
		Scope:            scope,
		SingularResource: k.Singular,
		Verbs:            verbs,
		ShortNames:       k.ShortNames,
		Categories:       k.Categories,
	}
	if k.Status {
		d.Subresources = []apidiscovery.APISubresourceDiscovery{
			{Subresource: "status", ResponseKind: responseKind, Verbs: statusVerbs}}
	}
	return d
}
