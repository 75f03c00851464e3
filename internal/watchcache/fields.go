package watchcache

import "k8s.io/apimachinery/pkg/runtime/schema"

// BuiltinFields are the fields that kube-apiserver lets field selectors name for a built-in kind, besides metadata.name and
// metadata.namespace. None for any other kind.
func BuiltinFields(gvk schema.GroupVersionKind) []Field {
	return builtinFields[gvk]
}

func at(paths ...string) []Field {
	out := make([]Field, 0, len(paths))
	for _, p := range paths {
		out = append(out, Field{Label: p, Paths: []string{p}})
	}
	return out
}

func orElse(value string, paths ...string) []Field {
	out := at(paths...)
	for i := range out {
		out[i].Default = value
	}
	return out
}

func join(parts ...[]Field) (out []Field) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

var builtinFields = map[schema.GroupVersionKind][]Field{
	{Version: "v1", Kind: "Pod"}: join(
		at("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP",
			"status.nominatedNodeName"),
		orElse("false", "spec.hostNetwork"),
		[]Field{
			{Label: "status.podIPs"},                               // accepted, and always empty
			{Label: "spec.host", Paths: []string{"spec.nodeName"}}, // its name long ago
		}),
	{Version: "v1", Kind: "Node"}:                  orElse("false", "spec.unschedulable"),
	{Version: "v1", Kind: "Namespace"}:             at("status.phase"),
	{Version: "v1", Kind: "Secret"}:                at("type"),
	{Version: "v1", Kind: "Service"}:               at("spec.clusterIP", "spec.type"),
	{Version: "v1", Kind: "ReplicationController"}: orElse("0", "status.replicas"),
	{Version: "v1", Kind: "Event"}: join(
		at("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
			"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "type"),
		[]Field{{Label: "source", Paths: []string{"source.component", "reportingComponent"}}}),
	{Group: "events.k8s.io", Version: "v1", Kind: "Event"}: at("regarding.kind", "regarding.namespace", "regarding.name",
		"regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type"),
	{Group: "batch", Version: "v1", Kind: "Job"}: {
		{Label: "status.successful", Paths: []string{"status.succeeded"}, Default: "0"}},
	{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}: at("spec.signerName"),
	{Group: "certificates.k8s.io", Version: "v1", Kind: "ClusterTrustBundle"}:        at("spec.signerName"),
	{Group: "certificates.k8s.io", Version: "v1", Kind: "PodCertificateRequest"}:     at("spec.signerName", "spec.podName", "spec.nodeName"),
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}: join(at("spec.nodeName", "spec.driver"),
		[]Field{{Label: "spec.pool.name", Paths: []string{"spec.pool.name"}}}),
}
