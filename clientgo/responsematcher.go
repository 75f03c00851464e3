package clientgo

import (
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/wire"
)

// own tells the answers that bring an informer's own objects from those of other requests that its ListerWatcher makes: one
// may list namespaces first, to list the pods of each. Those it must get itself. So an answer is captured only where it is
// known to be of the example's kind. It is used by the reflector's goroutine and, during a request, by the transport.
type responseMatcher struct {
	// kinds are those that the example's type stands for: usually one. Empty: unknown.
	gvks []schema.GroupVersionKind
	// typeName is the kind of an example that no scheme knows: by convention a Go type is named for its kind.
	goTypeName string
	partial    bool // the example is PartialObjectMetadata
	// resource is what is listed and watched, where that is known: from the start, or since the first captured list.
	resource schema.GroupVersionResource
}

// ownOf returns what an example tells. known, which may be nil, is asked for its kind before client-go's own scheme is.
func newResponseMatcher(example runtime.Object, known *runtime.Scheme) responseMatcher {
	if v := reflect.ValueOf(example); v.Kind() != reflect.Pointer || v.IsNil() {
		return responseMatcher{}
	}
	said := example.GetObjectKind().GroupVersionKind()
	switch example.(type) {
	case *metav1.PartialObjectMetadata:
		return responseMatcher{gvks: gvksOf(said), partial: true}
	case *unstructured.Unstructured:
		return responseMatcher{gvks: gvksOf(said)}
	}
	if said.Kind != "" && said.Version != "" {
		return responseMatcher{gvks: gvksOf(said)}
	}
	for _, s := range []*runtime.Scheme{known, scheme.Scheme} {
		if s == nil {
			continue
		}
		if kinds, _, err := s.ObjectKinds(example); err == nil {
			return responseMatcher{gvks: kinds}
		}
	}
	return responseMatcher{goTypeName: reflect.TypeOf(example).Elem().Name()}
}

func gvksOf(gvk schema.GroupVersionKind) []schema.GroupVersionKind {
	if gvk.Kind == "" {
		return nil
	}
	return []schema.GroupVersionKind{gvk}
}

// listPath is the end of a collection's path; what follows the version is the resource, or a namespace and the resource.
var listPath = regexp.MustCompile(`/(?:api|apis/([^/]+))/([^/]+)/(?:namespaces/[^/]+/)?([^/]+)/?$`)

// resourceOf returns what a request is for, where its path is that of a collection.
func resourceOf(req *http.Request) (schema.GroupVersionResource, bool) {
	part := listPath.FindStringSubmatch(req.URL.Path)
	if part == nil {
		return schema.GroupVersionResource{}, false
	}
	return schema.GroupVersionResource{Group: part[1], Version: part[2], Resource: part[3]}, true
}

// list reports whether the answer to a LIST of a resource, which begins with head, brings the informer's objects, and gives
// the kind that the caller's client takes an empty list of it by.
func (o *responseMatcher) matchList(resource schema.GroupVersionResource, head listTypeMeta) (wire.TypeMeta, bool) {
	switch {
	case !o.resource.Empty():
		if o.resource != resource {
			return wire.TypeMeta{}, false
		}
	case head.isUnknown():
		if !o.matchesPlural(resource) {
			return wire.TypeMeta{}, false
		}
	case head.list.Kind != "":
		kind, ok := strings.CutSuffix(head.list.Kind, "List")
		if !ok || !o.matchesType(resource, wire.TypeMeta{APIVersion: head.list.APIVersion, Kind: kind}) {
			return wire.TypeMeta{}, false
		}
	default:
		if !o.matchesType(resource, head.item) {
			return wire.TypeMeta{}, false
		}
	}
	return o.emptyListType(resource, head), true
}

// is reports whether a kind is the example's. An apiVersion that is not known is that of the path.
func (o *responseMatcher) matchesType(resource schema.GroupVersionResource, t wire.TypeMeta) bool {
	version := resource.GroupVersion().String()
	if t.APIVersion == "" {
		t.APIVersion = version
	}
	for _, gvk := range o.gvks {
		if t == (wire.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}) {
			return true
		}
	}
	return o.goTypeName != "" && t.APIVersion == version && strings.EqualFold(t.Kind, o.goTypeName)
}

// named reports whether the resource has the plural that the example's kind would have.
func (o *responseMatcher) matchesPlural(resource schema.GroupVersionResource) bool {
	kinds := o.gvks
	if o.goTypeName != "" {
		kinds = []schema.GroupVersionKind{resource.GroupVersion().WithKind(o.goTypeName)}
	}
	for _, gvk := range kinds {
		if plural, _ := meta.UnsafeGuessKindToResource(gvk); plural == resource {
			return true
		}
	}
	return false
}

// watch reports whether a WATCH of a resource brings the informer's objects.
func (o *responseMatcher) matchWatch(resource schema.GroupVersionResource) bool {
	if !o.resource.Empty() {
		return o.resource == resource
	}
	return o.matchesPlural(resource)
}

// tellsNothing reports whether the head leaves open what the objects are. Metadata does not say whose it is.
func (h listTypeMeta) isUnknown() bool {
	if h.list.Kind != "" {
		return h.list.Kind == partialMetadataList.Kind
	}
	return h.item.Kind == "" || h.item.Kind+"List" == partialMetadataList.Kind
}

var partialMetadataList = wire.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadataList"}

// listKind returns the kind of a list that is the informer's own: what the list says, or what its items or the example imply.
func (o *responseMatcher) emptyListType(resource schema.GroupVersionResource, head listTypeMeta) wire.TypeMeta {
	version := head.list.APIVersion
	if version == "" {
		version = head.item.APIVersion
	}
	if version == "" {
		version = resource.GroupVersion().String()
	}
	switch {
	case head.list.Kind != "":
		return wire.TypeMeta{APIVersion: version, Kind: head.list.Kind}
	case head.item.Kind != "":
		return wire.TypeMeta{APIVersion: version, Kind: head.item.Kind + "List"}
	case o.partial:
		return partialMetadataList
	case len(o.gvks) > 0:
		return wire.TypeMeta{APIVersion: version, Kind: o.gvks[0].Kind + "List"}
	case o.goTypeName != "":
		return wire.TypeMeta{APIVersion: version, Kind: o.goTypeName + "List"}
	}
	return wire.TypeMeta{APIVersion: "v1", Kind: "List"} // an unstructured client takes any
}
