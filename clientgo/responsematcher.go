package clientgo

import (
	"bytes"
	"cmp"
	"io"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// responseMatcher recognizes the responses that contain an informer's objects. A ListerWatcher may
// also send other requests: for example, it may list namespaces first, and then the pods of each
// namespace. The ListerWatcher must receive the responses to these other requests itself. Therefore
// a response is captured only if its objects certainly have the kind of the informer's example. The
// reflector's goroutine uses the matcher. During a request, the transport also uses it.
type responseMatcher struct {
	// gvks are the kinds of the example's type, usually one. It is empty if the kind is unknown.
	gvks []schema.GroupVersionKind
	// goTypeName is the name of the example's Go type, which by convention equals the kind. It is set
	// only if neither a scheme nor the example states the kind.
	goTypeName string
	partial    bool // the example is a PartialObjectMetadata
	// resource is the informer's resource. It is empty until a factory, a description or the first
	// captured list states it.
	resource schema.GroupVersionResource
}

// newResponseMatcher returns a matcher for objects like example. It looks up the kind of example's
// Go type in userScheme, which may be nil, and then in client-go's scheme. If neither contains the
// type, it uses the kind that example states. It does not use the stated kind first, because
// controller-runtime passes a caller's object as example, which may state any kind.
func newResponseMatcher(example runtime.Object, userScheme *runtime.Scheme) responseMatcher {
	if v := reflect.ValueOf(example); v.Kind() != reflect.Pointer || v.IsNil() {
		return responseMatcher{}
	}
	switch example.(type) {
	case *metav1.PartialObjectMetadata:
		return responseMatcher{gvks: gvksOf(statedKind(example)), partial: true}
	case *unstructured.Unstructured:
		return responseMatcher{gvks: gvksOf(statedKind(example))}
	}
	for _, s := range []*runtime.Scheme{userScheme, scheme.Scheme} {
		if s == nil {
			continue
		}
		if kinds, _, err := s.ObjectKinds(example); err == nil {
			return responseMatcher{gvks: kinds}
		}
	}
	if gvk := statedKind(example); gvk.Kind != "" && gvk.Version != "" {
		return responseMatcher{gvks: gvksOf(gvk)}
	}
	return responseMatcher{goTypeName: reflect.TypeOf(example).Elem().Name()}
}

// describe receives client-go's description of the informer's objects. For dynamic informers the
// description is the resource that NewFilteredDynamicInformer received. If the informer's kind is
// unknown and the description is the text of a resource, describe sets the resource.
func (m *responseMatcher) describe(objects string) {
	groupVersion, resource, _ := strings.Cut(objects, ", Resource=")
	group, version, _ := strings.Cut(groupVersion, "/")
	gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	if len(m.gvks) == 0 && m.goTypeName == "" && gvr.String() == objects {
		m.resource = gvr
	}
}

// statedKind returns the kind that an example states. It returns an empty kind if GetObjectKind
// panics; client-go does not call GetObjectKind on typed examples.
func statedKind(example runtime.Object) (gvk schema.GroupVersionKind) {
	defer func() { _ = recover() }()
	return example.GetObjectKind().GroupVersionKind()
}

func gvksOf(gvk schema.GroupVersionKind) []schema.GroupVersionKind {
	if gvk.Kind == "" {
		return nil
	}
	return []schema.GroupVersionKind{gvk}
}

// matchList reports whether the response to a LIST of resource contains the informer's objects. If
// so, it also returns the type for the stub, an empty list that the caller's client must be able to
// decode.
func (m *responseMatcher) matchList(resource schema.GroupVersionResource, types listTypeMeta) (wire.TypeMeta, bool) {
	matches := m.resource.Empty() || m.resource == resource
	switch {
	case !matches:
	case types.isUnknown():
		matches = !m.resource.Empty() || m.matchesPlural(resource)
	case m.resource == resource && !m.knowsKind():
		matches = !source.IsTable(types.list.APIVersion, types.list.Kind)
	case types.list.Kind != "":
		kind, ok := strings.CutSuffix(types.list.Kind, "List")
		matches = ok && m.matchesType(resource, wire.TypeMeta{APIVersion: types.list.APIVersion, Kind: kind})
	default:
		matches = m.matchesType(resource, types.item)
	}
	if !matches {
		return wire.TypeMeta{}, false
	}
	return m.emptyListType(resource, types), true
}

func (m *responseMatcher) knowsKind() bool { return len(m.gvks) > 0 || m.goTypeName != "" }

// matchObject reports whether an object of type t in a WATCH of resource may be one of the
// informer's objects. It returns true for an object that does not state its kind.
func (m *responseMatcher) matchObject(resource schema.GroupVersionResource, t wire.TypeMeta) bool {
	group, version, _ := strings.Cut(t.APIVersion, "/")
	switch {
	case t.Kind == "":
		return true
	case source.IsTable(t.APIVersion, t.Kind):
		return false
	case m.partial && t.Kind+"List" == partialMetadataList.Kind && group == metav1.GroupName:
		return true
	case m.knowsKind():
		return m.matchesType(resource, t)
	case m.partial: // the server does not support metadata-only requests
		gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: t.Kind}
		if version == "" {
			gvk.Group, gvk.Version = "", group
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		return plural == resource
	}
	return true
}

// matchesType reports whether an object of type t is one of the informer's objects. If t has no
// apiVersion, matchesType uses the apiVersion of resource.
func (m *responseMatcher) matchesType(resource schema.GroupVersionResource, t wire.TypeMeta) bool {
	version := resource.GroupVersion().String()
	if t.APIVersion == "" {
		t.APIVersion = version
	}
	for _, gvk := range m.gvks {
		if t == (wire.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}) {
			return true
		}
	}
	return m.goTypeName != "" && t.APIVersion == version && strings.EqualFold(t.Kind, m.goTypeName)
}

// kinds returns the kinds that the informer's objects may have in a response for resource.
func (m *responseMatcher) kinds(resource schema.GroupVersionResource) []schema.GroupVersionKind {
	if m.goTypeName != "" {
		return []schema.GroupVersionKind{resource.GroupVersion().WithKind(m.goTypeName)}
	}
	return m.gvks
}

// matchesPlural reports whether resource is the conventional plural of the example's kind.
func (m *responseMatcher) matchesPlural(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(m.kinds(resource), func(gvk schema.GroupVersionKind) bool {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		return plural == resource
	})
}

// matchWatch reports whether a WATCH of resource sends the informer's objects.
func (m *responseMatcher) matchWatch(resource schema.GroupVersionResource) bool {
	if !m.resource.Empty() {
		return m.resource == resource
	}
	return m.matchesPlural(resource)
}

var partialMetadataList = wire.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadataList"}

// emptyListType returns the type of the stub, the empty list that the caller receives. It is the
// type of the captured list. If this type is unknown, it is the list type of the captured items or
// of the example.
func (m *responseMatcher) emptyListType(resource schema.GroupVersionResource, types listTypeMeta) wire.TypeMeta {
	version := cmp.Or(types.list.APIVersion, types.item.APIVersion, resource.GroupVersion().String())
	switch kinds := m.kinds(resource); {
	case types.list.Kind != "":
		return wire.TypeMeta{APIVersion: version, Kind: types.list.Kind}
	case types.item.Kind != "":
		return wire.TypeMeta{APIVersion: version, Kind: types.item.Kind + "List"}
	case m.partial:
		return partialMetadataList
	case len(kinds) > 0:
		return wire.TypeMeta{APIVersion: version, Kind: kinds[0].Kind + "List"}
	}
	return wire.TypeMeta{APIVersion: "v1", Kind: "List"} // an unstructured client decodes any list
}

// hasWireForm reports whether this package can decode the objects in a server's response as type t,
// a pointer to a struct. It returns false for internal types, whose field ObjectMeta has no json
// tag: a server sends objects of an API version, and only the client's codec can convert them to an
// internal type.
func hasWireForm(t reflect.Type) bool {
	for _, f := range reflect.VisibleFields(t.Elem()) {
		if f.Type != reflect.TypeFor[metav1.ObjectMeta]() && f.Type != reflect.TypeFor[*metav1.ObjectMeta]() {
			continue
		}
		if _, tagged := f.Tag.Lookup("json"); !tagged {
			return false
		}
	}
	return true
}

// listTypeMeta contains the types that a list's first bytes state. kube-apiserver sends the list's
// own type first, except in lists of custom resources: their keys are sorted, so the items precede
// the list's kind. Each item of such a list starts with the item's own type.
type listTypeMeta struct {
	list wire.TypeMeta
	item wire.TypeMeta // the first item's type, if the list's type is unknown
}

// isUnknown reports whether the first bytes do not state the objects' kind. Lists of metadata never
// state the objects' kind.
func (h listTypeMeta) isUnknown() bool {
	if h.list.Kind != "" {
		return h.list.Kind == partialMetadataList.Kind
	}
	return h.item.Kind == "" || h.item.Kind+"List" == partialMetadataList.Kind
}

// maxTypeMetaPrefix limits how many bytes of a captured LIST are searched for types. It is enough
// for a first item of the largest size that etcd accepts, and for the JSON members before this
// item.
const maxTypeMetaPrefix = 2 << 20

// typeMetaReader reads a list until the list's type is known. It keeps the bytes that it has read,
// so that another reader can read the list from its start.
type typeMetaReader struct {
	body io.Reader
	list *wire.ListReader
	read bytes.Buffer // the bytes that were read: at most maxTypeMetaPrefix plus one Read
	err  error        // the last error of body
}

// Read returns io.EOF when the list's type is known or maxTypeMetaPrefix is reached.
func (r *typeMetaReader) Read(p []byte) (n int, err error) {
	if t := r.list.TypeMeta(); t.Kind != "" && t.APIVersion != "" || r.read.Len() > maxTypeMetaPrefix {
		return 0, io.EOF
	}
	n, r.err = r.body.Read(p)
	r.read.Write(p[:n])
	return n, r.err
}

// readListTypeMeta returns the types of a list, and a reader of the whole list. It reads only as
// much of the list as necessary. The types are empty if body is not a list. It returns an error
// only if a read of body fails.
func readListTypeMeta(body io.Reader, enc wire.Encoding) (listTypeMeta, io.Reader, error) {
	r := &typeMetaReader{body: body}
	r.list = wire.NewListReader(r, enc, wire.Limits{})
	_, _ = r.list.Next() // an error means that the list is cut off; then the types may remain unknown
	if r.err != nil && r.err != io.EOF {
		return listTypeMeta{}, nil, r.err
	}
	types := listTypeMeta{list: r.list.TypeMeta()}
	if types.list.Kind == "" {
		types.item = r.list.ItemTypeMeta()
	}
	return types, io.MultiReader(&r.read, body), nil
}
