package weir

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	"github.com/weirproject/weir/internal/decode"
	"github.com/weirproject/weir/internal/mutation"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// kind is what an informer must know of its type: where its objects are and how their bytes become
// one.
type kind struct {
	gvk      schema.GroupVersionKind     // empty for unstructured and metadata
	resource schema.GroupVersionResource // empty: to be looked up by discovery, from gvk
	goType   reflect.Type                // the struct; nil for unstructured
	encoding wire.Encoding
	as       string // "" or source.PartialObjectMetadata
	decode   func(raw []byte) (any, error)

	item atomic.Pointer[wire.TypeMeta] // what lists say that their items are
}

// protobufPackages hold the types that kube-apiserver serves as protobuf. Having an Unmarshal
// method is not enough: some custom resources' types have one too, and those are served as JSON
// only.
var protobufPackages = []string{"k8s.io/api/", "k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/kube-aggregator/pkg/apis/"}

// kindOf works out T's kind, and says what is missing from the options.
func kindOf[T Object](opts Options) (*kind, error) {
	ptr := reflect.TypeFor[T]()
	if ptr.Kind() != reflect.Pointer || ptr.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: an informer's type is a pointer to a struct, not %s", ErrOptions, ptr)
	}
	k := &kind{resource: opts.Resource, goType: ptr.Elem(), encoding: wire.JSON}
	switch any(*new(T)).(type) {
	case *unstructured.Unstructured:
		k.goType, k.decode = nil, k.decodeUnstructured
		return k, k.needResource(ptr)
	case *metav1.PartialObjectMetadata:
		k.as, k.encoding, k.decode = source.PartialObjectMetadata, wire.Protobuf, decoderOf(ptr, opts)
		return k, k.needResource(ptr)
	}
	k.decode = decodeJSON[T]
	if isProtobuf(ptr) {
		k.encoding, k.decode = wire.Protobuf, decoderOf(ptr, opts)
	}
	if !opts.Resource.Empty() {
		return k, nil
	}
	if err := k.find(ptr, opts.Scheme); err != nil {
		return nil, err
	}
	return k, nil
}

// decoderOf decodes protobuf. Objects share nothing unless that is asked for, and nobody hands out
// private ones or looks for changes.
func decoderOf(ptr reflect.Type, opts Options) func(raw []byte) (any, error) {
	if opts.ShareDecoded && !opts.PrivateCopies && !opts.DetectMutation && !mutation.ByEnvironment() {
		return decode.For(ptr).DecodeShared
	}
	return decode.For(ptr).Decode
}

// isProtobuf reports whether objects of the type come as protobuf.
func isProtobuf(ptr reflect.Type) bool {
	if decode.For(ptr) == nil {
		return false
	}
	for _, prefix := range protobufPackages {
		if strings.HasPrefix(ptr.Elem().PkgPath(), prefix) {
			return true
		}
	}
	return false
}

func (k *kind) needResource(ptr reflect.Type) error {
	if k.resource.Empty() {
		return fmt.Errorf("%w: an informer of %s needs Options.Resource", ErrOptions, ptr)
	}
	return nil
}

// find looks the type up in the scheme. The resource of a built-in kind follows from its name;
// others are left to discovery, because a CustomResourceDefinition may choose any.
func (k *kind) find(ptr reflect.Type, s *runtime.Scheme) error {
	if s == nil {
		s = scheme.Scheme
	}
	gvks, _, err := s.ObjectKinds(reflect.New(ptr.Elem()).Interface().(runtime.Object))
	if err != nil {
		return fmt.Errorf("%w: neither Options.Resource nor a Scheme that knows %s: %w", ErrOptions, ptr, err)
	}
	k.gvk = gvks[0]
	if k.encoding == wire.Protobuf {
		k.resource = guessResource(k.gvk)
	}
	return nil
}

func (k *kind) name() string {
	if k.resource.Empty() {
		return k.gvk.GroupKind().String()
	}
	return k.resource.GroupResource().String()
}

// source opens the kind's LISTs and WATCHes.
func (k *kind) source(cfg *rest.Config, sc scope, opts source.Options) (source.Source, error) {
	r := source.Resource{
		GVR:           k.resource,
		Namespace:     sc.namespace,
		LabelSelector: sc.selector.Label,
		FieldSelector: sc.selector.Field,
		ShardSelector: sc.shard.String(),
		As:            k.as,
		Encoding:      k.encoding,
	}
	if !k.resource.Empty() {
		return source.New(cfg, r, opts)
	}
	return newDiscovered(cfg, k.gvk, r, opts)
}

// learn notes what the items of lists are: in JSON those of built-in kinds do not say so
// themselves.
func (k *kind) learn(t wire.TypeMeta) { k.item.Store(&t) }

func newObject[T Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

func decodeJSON[T Object](raw []byte) (any, error) {
	object := newObject[T]()
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, object); err != nil {
		return nil, err
	}
	return object, nil
}

func (k *kind) decodeUnstructured(raw []byte) (any, error) {
	object := &unstructured.Unstructured{}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &object.Object); err != nil {
		return nil, err
	}
	if item := k.item.Load(); item != nil && object.GetKind() == "" {
		object.SetAPIVersion(item.APIVersion)
		object.SetKind(item.Kind)
	}
	return object, nil
}
