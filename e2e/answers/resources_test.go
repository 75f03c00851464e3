package answers

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/weirproject/weir/e2e/cluster"
)

const (
	// prefix starts the names of the compared objects.
	prefix = "answers-"
	// kept, changed, gone and made are the names of the compared objects of each resource. The name
	// says what a round does with the object: nothing, update, delete or create.
	kept, changed, gone, made = prefix + "kept", prefix + "changed", prefix + "gone", prefix + "made"
	// namespace is the namespace of all compared objects that are namespaced.
	namespace   = "answers"
	customGroup = "answers.weir.dev"
)

// definitions and apiServices are resources that determine what kube-apiserver serves. The tests do
// not create random objects of them, because these could break the server.
var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
)

// resource is one version of a resource that kube-apiserver can list and watch.
type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// path returns the path of a LIST in all namespaces.
func (r *resource) path() string {
	if r.Group == "" {
		return "/api/" + r.Version + "/" + r.Resource
	}
	return "/apis/" + r.GroupVersion().String() + "/" + r.Resource
}

// object returns the path of the object with the given name.
func (r *resource) object(name string) string {
	switch {
	case r.GroupVersionResource == definitions:
		return r.path() + "/" + name + "." + customGroup
	case r.namespaced:
		return strings.TrimSuffix(r.path(), r.Resource) + "namespaces/" + namespace + "/" + r.Resource + "/" + name
	}
	return r.path() + "/" + name
}

// argument returns the name of the resource in the proxy's options.
func (r *resource) argument() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Version + "." + r.Group
}

func (r *resource) custom() bool { return r.Group == customGroup }

// cached reports whether the proxy caches the resource.
func (r *resource) cached() bool { return r.GroupResource() != apiServices }

// filled reports whether cluster.PutFuzzed fills the objects of the resource with random values.
func (r *resource) filled() bool {
	return r.cached() && !r.custom() && r.GroupVersionResource != definitions
}

// forwarded reports whether the proxy forwards a read of this media type, according to
// docs/reference/proxy-reads.md.
func (r *resource) forwarded(accept string) bool {
	return !r.cached() || accept == yamlType || r.GroupVersionResource == definitions && strings.HasPrefix(accept, protobufType) && !strings.Contains(accept, "as=")
}

// listable returns all resources that can be listed and watched, in all versions.
func listable() (all []*resource, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(shared.Config())
	if err != nil {
		return nil, err
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			all = append(all, &resource{gv.WithResource(r.Name), r.Kind, r.Namespaced})
		}
	}
	return all, nil
}

// kindsOf returns the kinds whose objects get random values, each with the given names. A kind that
// has several versions is returned once.
func kindsOf(all []*resource, names ...string) (kinds []cluster.FuzzedKind) {
	for _, r := range all {
		if !r.filled() || r.Group == "events.k8s.io" { // these objects are also in the core group
			continue
		}
		i := slices.IndexFunc(kinds, func(k cluster.FuzzedKind) bool { return k.Resource == r.GroupResource() })
		if i >= 0 {
			kinds[i].Versions = append(kinds[i].Versions, r.Version)
			continue
		}
		k := cluster.FuzzedKind{Resource: r.GroupResource(), Kind: r.kind, Versions: []string{r.Version}, Names: names}
		if r.namespaced {
			k.Namespace = namespace
		}
		kinds = append(kinds, k)
	}
	return kinds
}
