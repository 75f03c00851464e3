package watchcache

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/core/wire"
)

// Resource describes the resource that a [Cache] serves. It must not be changed after New.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	ListKind   string // empty: Kind + "List"
	Namespaced bool
	// Custom says that a CustomResourceDefinition defines the resource. The cache then accepts
	// application/* in an Accept header, and accepts metadata.namespace in a field selector only if
	// the resource is namespaced. kube-apiserver does the same.
	Custom bool
	// Type is the Go struct of the objects. If the objects are stored as protobuf, the cache needs
	// Type to serve them in JSON or as a table, and to select them by field. nil: the cache serves
	// whole objects only in their stored encoding.
	Type reflect.Type
	// Fields are the fields that field selectors may name, in addition to metadata.name and, where
	// kube-apiserver supports it, metadata.namespace.
	Fields []Field
	// StoredAs is the apiVersion inside stored JSON objects, if it differs from the served one. Empty:
	// it does not differ.
	StoredAs string
	// Columns are the columns of a Table. To fill them, the cache decodes objects. nil: Name and Age,
	// without decoding.
	Columns *columns.Set

	conversion conversion
}

// Field is a field that field selectors may name.
type Field struct {
	Label   string   // name in selectors, for example spec.nodeName
	Paths   []string // see wire.CompilePath; the first value that is not empty counts
	Default string   // value of an absent field
	Indexed bool     // always indexed, as in kube-apiserver
}

// GroupVersionKind returns the kind of the objects.
func (r *Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

func (r *Resource) typeMeta() wire.TypeMeta {
	return wire.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.Kind}
}

func (r *Resource) listTypeMeta() wire.TypeMeta {
	return wire.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.ListKind}
}

// selectableField is a compiled Field.
type selectableField struct {
	Field
	paths []*wire.Path
}

func compileFields(enc wire.Encoding, r *Resource) (map[string]*selectableField, error) {
	out := make(map[string]*selectableField, len(r.Fields))
	for _, f := range r.Fields {
		c := &selectableField{Field: f}
		for _, path := range f.Paths {
			p, err := wire.CompilePath(enc, r.Type, strings.TrimPrefix(path, "."))
			if err != nil {
				return nil, fmt.Errorf("watchcache: field %s of %s: %w", f.Label, r.Kind, err)
			}
			c.paths = append(c.paths, p)
		}
		out[f.Label] = c
	}
	return out, nil
}

// value returns the field's value in an object's bytes. It uses scratch as a buffer, and returns it
// for the next call.
func (f *selectableField) value(object []byte, scratch [][]byte) (string, [][]byte, error) {
	for _, p := range f.paths {
		var err error
		if scratch, err = p.Append(scratch[:0], object); err != nil {
			return "", scratch, err
		}
		if len(scratch) > 0 && len(scratch[0]) > 0 {
			return string(scratch[0]), scratch, nil
		}
	}
	return f.Default, scratch, nil
}

// BuiltinFields returns the fields that kube-apiserver accepts in field selectors of a built-in
// kind, in addition to metadata.name and, for most kinds, metadata.namespace. It returns nil for
// any other kind.
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

var builtinFields = map[schema.GroupVersionKind][]Field{
	{Version: "v1", Kind: "Pod"}: slices.Concat(
		[]Field{indexedAt("spec.nodeName")},
		fieldsAt("spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP",
			"status.nominatedNodeName"),
		fieldsWithDefault("false", "spec.hostNetwork"),
		[]Field{
			{Label: "status.podIPs"},                               // accepted, and always empty
			{Label: "spec.host", Paths: []string{"spec.nodeName"}}, // the old name of spec.nodeName
		}),
	{Version: "v1", Kind: "Node"}:                  fieldsWithDefault("false", "spec.unschedulable"),
	{Version: "v1", Kind: "Namespace"}:             fieldsAt("status.phase"),
	{Version: "v1", Kind: "Secret"}:                fieldsAt("type"),
	{Version: "v1", Kind: "Service"}:               fieldsAt("spec.clusterIP", "spec.type"),
	{Version: "v1", Kind: "ReplicationController"}: fieldsWithDefault("0", "status.replicas"),
	{Version: "v1", Kind: "Event"}: slices.Concat(
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
	{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice"}: slices.Concat([]Field{indexedAt("spec.nodeName")}, fieldsAt("spec.driver"),
		fieldsAt("spec.pool.name")),
}

// withoutNamespaceField are the built-in kinds for which kube-apiserver does not accept
// metadata.namespace in a field selector, in any version. kube-apiserver accepts metadata.namespace
// for all other kinds, including cluster-scoped kinds.
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

// SupportsField reports whether a field selector may name the field with this label.
func (c *Cache) SupportsField(label string) bool {
	return label == metadataName.Label || label == metadataNamespace.Label && c.resource.hasNamespaceField() || c.fields[label] != nil
}
