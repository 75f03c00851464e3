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

	"github.com/weirproject/weir/internal/core/wire"
)

// responseMatcher recognizes the responses that have an informer's objects. A ListerWatcher may
// send other requests too: it may list namespaces first, and then the pods of each. It must receive
// those responses itself, so a response is captured only if its objects are known to have the
// example's kind. The reflector's goroutine uses the matcher and, during a request, the transport.
type responseMatcher struct {
	// gvks are the kinds of the example's type, usually one. Empty means unknown.
	gvks []schema.GroupVersionKind
	// goTypeName is the kind of an example that no scheme knows: by convention a Go type has the
	// name of its kind.
	goTypeName string
	partial    bool // the example is PartialObjectMetadata
	// resource is the informer's resource, if that is known: from the start, or since the first
	// captured list.
	resource schema.GroupVersionResource
}

// newResponseMatcher returns a matcher for objects like example. userScheme is asked for the
// example's kind before client-go's own; it may be nil. The kind that a typed example states is
// used only if neither knows its type: controller-runtime passes a caller's object, which may state
// any kind.
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

// describe sets the resource of an example without a kind from client-go's description of the
// informer's objects. For a dynamic informer that is the resource, which NewFilteredDynamicInformer
// receives.
func (m *responseMatcher) describe(objects string) {
	groupVersion, resource, _ := strings.Cut(objects, ", Resource=")
	group, version, _ := strings.Cut(groupVersion, "/")
	gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	if len(m.gvks) == 0 && m.goTypeName == "" && gvr.String() == objects {
		m.resource = gvr
	}
}

// statedKind returns the kind that an example states. It returns none if its GetObjectKind, which
// client-go does not call on typed examples, panics.
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

// matchList reports whether the response to a LIST has the informer's objects. It also returns the
// type of the empty list that the caller's client can decode.
func (m *responseMatcher) matchList(resource schema.GroupVersionResource, types listTypeMeta) (wire.TypeMeta, bool) {
	matches := m.resource.Empty() || m.resource == resource
	switch {
	case !matches:
	case types.isUnknown():
		matches = !m.resource.Empty() || m.matchesPlural(resource)
	case m.resource == resource && !m.knowsKind():
		matches = !isTable(types.list.APIVersion, types.list.Kind)
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

// knowsKind reports whether the kind of the informer's objects is known.
func (m *responseMatcher) knowsKind() bool { return len(m.gvks) > 0 || m.goTypeName != "" }

// matchObject reports whether an object in a WATCH of the resource may be the informer's. One that
// does not state its kind may.
func (m *responseMatcher) matchObject(resource schema.GroupVersionResource, t wire.TypeMeta) bool {
	group, version, _ := strings.Cut(t.APIVersion, "/")
	switch {
	case t.Kind == "":
		return true
	case isTable(t.APIVersion, t.Kind):
		return false
	case m.partial && t.Kind+"List" == partialMetadataList.Kind && group == metav1.GroupName:
		return true
	case m.knowsKind():
		return m.matchesType(resource, t)
	case m.partial: // the server does not support metadata, and has sent the object
		gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: t.Kind}
		if version == "" {
			gvk.Group, gvk.Version = "", group
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		return plural == resource
	}
	return true
}

// matchesType reports whether objects of type t are the informer's. If t has no apiVersion, the
// path's is used.
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

// kinds returns the kinds that the informer's objects may have in a response of the resource.
func (m *responseMatcher) kinds(resource schema.GroupVersionResource) []schema.GroupVersionKind {
	if m.goTypeName != "" {
		return []schema.GroupVersionKind{resource.GroupVersion().WithKind(m.goTypeName)}
	}
	return m.gvks
}

// matchesPlural reports whether the resource has the plural that the example's kind would have.
func (m *responseMatcher) matchesPlural(resource schema.GroupVersionResource) bool {
	return slices.ContainsFunc(m.kinds(resource), func(gvk schema.GroupVersionKind) bool {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		return plural == resource
	})
}

// matchWatch reports whether a WATCH of the resource sends the informer's objects.
func (m *responseMatcher) matchWatch(resource schema.GroupVersionResource) bool {
	if !m.resource.Empty() {
		return m.resource == resource
	}
	return m.matchesPlural(resource)
}

var partialMetadataList = wire.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadataList"}

// emptyListType returns the type of an empty list for the caller: the captured list's, or the one
// that its items or the example imply.
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
	return wire.TypeMeta{APIVersion: "v1", Kind: "List"} // an unstructured client accepts any
}

// hasWireForm reports whether objects of a pointer's type can be decoded from servers' responses.
// It is false for internal types, which have no json tag at their ObjectMeta: their client's codec
// converts them from a version of the API.
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

// listTypeMeta contains the types at the start of a list. kube-apiserver sends the list's own type
// first, except for custom resources: there the keys are sorted, so the items precede the list's
// kind, and each item starts with its own type.
type listTypeMeta struct {
	list wire.TypeMeta
	item wire.TypeMeta // of the first item, if the list's is unknown
}

// isUnknown reports whether the first bytes do not show the objects' kind. Lists of metadata do not
// state the kind of the objects.
func (h listTypeMeta) isUnknown() bool {
	if h.list.Kind != "" {
		return h.list.Kind == partialMetadataList.Kind
	}
	return h.item.Kind == "" || h.item.Kind+"List" == partialMetadataList.Kind
}

// maxTypeMetaPrefix limits the bytes of a captured LIST that are searched for types: a first item
// of the largest size that etcd accepts, and the members that may precede it.
const maxTypeMetaPrefix = 2 << 20

// typeMetaReader reads a list until its type is known. It keeps the bytes.
type typeMetaReader struct {
	body io.Reader
	list *wire.ListReader
	read bytes.Buffer // at most maxTypeMetaPrefix bytes, and one read
	err  error        // of body
}

// Read returns io.EOF if reading further could find nothing more.
func (r *typeMetaReader) Read(p []byte) (n int, err error) {
	if t := r.list.TypeMeta(); t.Kind != "" && t.APIVersion != "" || r.read.Len() > maxTypeMetaPrefix {
		return 0, io.EOF
	}
	n, r.err = r.body.Read(p)
	r.read.Write(p[:n])
	return n, r.err
}

// readListTypeMeta reads no more of a list than necessary, and returns a reader of the whole list.
// The result is empty for a body that is not a list. The error is the reader's.
func readListTypeMeta(body io.Reader, enc wire.Encoding) (listTypeMeta, io.Reader, error) {
	r := &typeMetaReader{body: body}
	r.list = wire.NewListReader(r, enc, wire.Limits{})
	_, _ = r.list.Next() // the text may be cut off; the types precede that, or remain unknown
	if r.err != nil && r.err != io.EOF {
		return listTypeMeta{}, nil, r.err
	}
	types := listTypeMeta{list: r.list.TypeMeta()}
	if types.list.Kind == "" {
		types.item = r.list.ItemTypeMeta()
	}
	return types, io.MultiReader(&r.read, body), nil
}
