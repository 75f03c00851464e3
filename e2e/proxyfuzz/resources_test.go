package proxyfuzz

import "k8s.io/apimachinery/pkg/runtime/schema"

const fuzzGroup = "fuzz.weir.dev"

// resource is a resource that the fuzzer's requests read or write.
type resource struct {
	group, version, name, kind string
	namespaced                 bool
	// held: the proxy caches the resource. cached: the proxy answers consistent reads from its cache
	// (TrustCache), without asking kube-apiserver for the newest resourceVersion.
	held, cached bool
	// permissions says that the objects are roles, which change between rounds.
	permissions bool
	// names are the names of the objects, in each namespace for a namespaced resource. The last one is
	// deleted before the first request.
	names        []string
	subresources []string
	fields       []string // field selectors that some resource supports
	body         func(i int) map[string]any
}

func (r *resource) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.name}
}

// argument returns the resource's name in the proxy's options.
func (r *resource) argument() string {
	switch r.group {
	case "":
		return r.name
	case fuzzGroup:
		return r.name + "." + r.version + "." + r.group
	}
	return r.name + "." + r.group
}

// object returns the i-th object without metadata.
func (r *resource) object(i int) map[string]any {
	if r.body == nil {
		return map[string]any{}
	}
	return r.body(i)
}

func (r *resource) prefix() string {
	if r.group == "" {
		return "/api/" + r.version
	}
	return "/apis/" + r.group + "/" + r.version
}

var (
	// namespaces are names of namespaces. To confuse parsers, one is also the name of a resource, and
	// one is also a verb in old API paths.
	namespaces  = []string{"mine", "yours", "pods", "watch"}
	colors      = []string{"red", "green", "blue"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	namespaceResource = &resource{
		version: "v1", name: "namespaces", kind: "Namespace", held: true, cached: true, names: append([]string{"none"}, namespaces...),
		subresources: []string{"status", "finalize"}, fields: []string{"status.phase=Active", "metadata.name=mine"},
	}
	configMapResource = &resource{
		version: "v1", name: "configmaps", kind: "ConfigMap", namespaced: true, held: true,
		names: []string{"plain", "with.dots", "status", "gone"}, fields: []string{"metadata.namespace=mine"},
		body: func(int) map[string]any { return map[string]any{"data": map[string]any{"a": "b"}} },
	}
	// resources are the resources that requests read or write.
	resources = []*resource{
		namespaceResource,
		{
			version: "v1", name: "pods", kind: "Pod", namespaced: true, held: true, cached: true,
			names: []string{"web-0", "web-1", "pods", "log", "gone"}, subresources: []string{"status", "log", "exec", "binding", "eviction", "ephemeralcontainers"},
			fields: []string{"spec.nodeName=node-0", "spec.nodeName!=node-0", "status.phase=Pending", "metadata.name=web-0,spec.nodeName=node-1", "spec.nonsense=1"},
			body: func(i int) map[string]any {
				return map[string]any{"spec": map[string]any{
					"nodeName": pick(newDice(1, uint64(i)), "node-0", "node-1"), "containers": []any{map[string]any{"name": "c", "image": "none"}},
				}}
			},
		},
		configMapResource,
		{
			version: "v1", name: "secrets", kind: "Secret", namespaced: true, held: true, cached: true,
			names: []string{"plain", "key", "gone"}, fields: []string{"type=Opaque", "type!=Opaque"},
		},
		{
			version: "v1", name: "serviceaccounts", kind: "ServiceAccount", namespaced: true,
			names: []string{"robot", "default", "gone"}, subresources: []string{"token"},
		},
		{
			group: "rbac.authorization.k8s.io", version: "v1", name: "clusterroles", kind: "ClusterRole", held: true, cached: true, permissions: true,
			names: []string{"colon:colon", "Upper", "a space", "at@home", "é", "gone"},
		},
		{
			group: "rbac.authorization.k8s.io", version: "v1", name: "roles", kind: "Role", namespaced: true, held: true, permissions: true,
			names: []string{"colon:colon", "mine", "gone"},
		},
		{
			group: fuzzGroup, version: "v1", name: "widgets", kind: "Widget", namespaced: true, held: true, cached: true,
			names: []string{"w.one", "two", "gone"}, subresources: []string{"status"}, fields: []string{"spec.color=red", "spec.size=1"},
			body: func(i int) map[string]any {
				return map[string]any{"spec": map[string]any{"color": colors[i%len(colors)]}}
			},
		},
		{
			group: fuzzGroup, version: "v1", name: "gadgets", kind: "Gadget", held: true,
			names: []string{"mine", "yours", "namespaces", "gone"}, subresources: []string{"status"}, fields: []string{"spec.color!=red"},
			body: func(i int) map[string]any {
				return map[string]any{"spec": map[string]any{"color": colors[i%len(colors)]}}
			},
		},
		{ // not cached by the proxy
			group: "apps", version: "v1", name: "controllerrevisions", kind: "ControllerRevision", namespaced: true, names: []string{"one", "gone"},
			body: func(i int) map[string]any {
				return map[string]any{"revision": int64(i), "data": map[string]any{"a": "b"}}
			},
		},
	}
)
