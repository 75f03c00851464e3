package watchcache

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BuiltinFields returns the fields that kube-apiserver accepts in field selectors of a built-in
// kind, in addition to metadata.name and mostly metadata.namespace. It returns nil for any other
// kind.
func BuiltinFields(gvk schema.GroupVersionKind) []Field {
	return builtinFields[gvk]
}

func fieldsAt(paths ...string) []Field {
	out := make([]Field, 0, len(paths))
	for _, p := range paths {
		out = append(out, Field{Label: p, Paths: []string{p}})
	}
	return out
}

func indexedAt(path string) Field { return Field{Label: path, Paths: []string{path}, Indexed: true} }

func fieldsWithDefault(value string, paths ...string) []Field {
	out := fieldsAt(paths...)
	for i := range out {
		out[i].Default = value
	}
	return out
}

func concat(parts ...[]Field) (out []Field) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

var builtinFields = map[schema.GroupVersionKind][]Field{
	{Version: "v1", Kind: "Pod"}: concat(
		[]Field{indexedAt("spec.nodeName")},
		fieldsAt("spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP",
			"status.nominatedNodeName"),
		fieldsWithDefault("false", "spec.hostNetwork"),
		[]Field{
			{Label: "status.podIPs"},                               // accepted, and always empty
			{Label: "spec.host", Paths: []string{"spec.nodeName"}}, // the old name
		}),
	{Version: "v1", Kind: "Node"}:                  fieldsWithDefault("false", "spec.unschedulable"),
	{Version: "v1", Kind: "Namespace"}:             fieldsAt("status.phase"),
	{Version: "v1", Kind: "Secret"}:                fieldsAt("type"),
	{Version: "v1", Kind: "Service"}:               fieldsAt("spec.clusterIP", "spec.type"),
	{Version: "v1", Kind: "ReplicationController"}: fieldsWithDefault("0", "status.replicas"),
	{Version: "v1", Kind: "Event"}: concat(
		fieldsAt("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
			"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "type"),
		[]Field{{Label: "source", Paths: []string{"source.component", "reportingComponent"}}}),
	{Group: "events.k8s.io", Version: "v1", Kind: "Event"}: fieldsAt("regarding.kind", "regarding.namespace", "regarding.name",
		"regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type"),
	{Group: "batch", Version: "v1", Kind: "Job"}: {
		{Label: "status.successful", Paths: []string{"status.succeeded"}, Default: "0"}},
	{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}: fieldsAt("spec.signerName"),
	{Group: "certificates.k8s.io", Version: "v1", Kind: "ClusterTrustBundle"}:        fieldsAt("spec.signerName"),
	{Group: "certificates.k8s.io", Version: "v1", Kind: "PodCertificateRequest"}:     fieldsAt("spec.signerName", "spec.podName", "spec.nodeName"),
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}: concat([]Field{indexedAt("spec.nodeName")}, fieldsAt("spec.driver"),
		[]Field{{Label: "spec.pool.name", Paths: []string{"spec.pool.name"}}}),
}

// withoutNamespaceField are the built-in kinds of which kube-apiserver knows no field
// metadata.namespace, in any version. It knows it of all others, also of those without namespaces.
var withoutNamespaceField = map[schema.GroupKind]bool{
	{Kind: "Namespace"}: true,
	{Kind: "Node"}:      true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: true,
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:        true,
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:     true,
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                 true,
}

// hasNamespaceField reports whether a field selector may name metadata.namespace.
func (r *Resource) hasNamespaceField() bool {
	return !withoutNamespaceField[r.GroupVersionKind().GroupKind()] && (r.Namespaced || !r.Custom)
}

// SupportsField reports whether a field selector may name a field.
func (c *Cache) SupportsField(label string) bool {
	return label == metadataName.Label || label == metadataNamespace.Label && c.resource.hasNamespaceField() || c.fields[label] != nil
}
