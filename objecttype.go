package weir

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// objectType describes the type T of an informer: its resource, the encoding of its objects and
// their decoder.
type objectType struct {
	gvk      schema.GroupVersionKind     // empty for unstructured and metadata-only objects
	resource schema.GroupVersionResource // if empty, discovery finds it by gvk
	goType   reflect.Type                // the struct type; nil for unstructured objects
	encoding wire.Encoding
	metadata bool // the objects are metadata-only
	codec    *codec.Codec
}

// protobufPackages lists the packages of types that servers send as protobuf. It is not enough that
// a type has a generated Unmarshal method: the types of some custom resources have one, but servers
// send custom resources only as JSON.
var protobufPackages = []string{"k8s.io/api/", "k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/kube-aggregator/pkg/apis/"}

// objectTypeOf describes T. It returns ErrInvalidOptions if T is not a pointer to a struct, or if
// the options do not determine T's resource or kind.
func objectTypeOf[T Object](opts Options) (*objectType, error) {
	ptr := reflect.TypeFor[T]()
	if ptr.Kind() != reflect.Pointer || ptr.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: the type of an informer must be a pointer to a struct, not %s", ErrInvalidOptions, ptr)
	}
	t := &objectType{resource: opts.Resource, goType: ptr.Elem(), encoding: wire.JSON, codec: codec.New(ptr)}
	switch any(*new(T)).(type) {
	case *unstructured.Unstructured:
		t.goType = nil
		return t, t.needResource(ptr)
	case *metav1.PartialObjectMetadata:
		t.metadata, t.encoding = true, wire.Protobuf
		return t, t.needResource(ptr)
	}
	if t.codec.HasProtobuf() && isServedAsProtobuf(ptr.Elem()) {
		t.encoding = wire.Protobuf
	}
	if !opts.Resource.Empty() {
		return t, nil
	}
	if err := t.find(ptr, opts.Scheme); err != nil {
		return nil, err
	}
	return t, nil
}

// decoder returns the function that decodes shared objects. If ShareDecoded is set, and neither
// PrivateCopies nor DetectMutation is, the decoded objects share equal parts.
func (t *objectType) decoder(opts Options) func(raw []byte, earlier *codec.Version) (any, error) {
	if opts.ShareDecoded && !opts.PrivateCopies && !opts.DetectMutation && !checks.DetectMutations() {
		return t.codec.DecodeShared
	}
	return t.codec.Decode
}

// transcode returns a reflector.Config.Transcode that converts objects to protobuf. It returns nil
// for types that are stored as JSON.
func (t *objectType) transcode() func(dst, object []byte) ([]byte, error) {
	if t.encoding != wire.Protobuf {
		return nil
	}
	return func(dst, object []byte) ([]byte, error) {
		value, err := t.codec.Decode(object, nil)
		if err != nil {
			return nil, err
		}
		raw, err := codec.Marshal(wire.Protobuf, value)
		if err != nil {
			return nil, fmt.Errorf("%s as protobuf: %w", t.goType, err)
		}
		return append(dst, raw...), nil
	}
}

// isServedAsProtobuf reports whether servers send objects of a type as protobuf. It only looks at
// the type's package; the caller checks that the type has a protobuf form.
func isServedAsProtobuf(t reflect.Type) bool {
	return slices.ContainsFunc(protobufPackages, func(prefix string) bool { return strings.HasPrefix(t.PkgPath(), prefix) })
}

func (t *objectType) needResource(ptr reflect.Type) error {
	if t.resource.Empty() {
		return fmt.Errorf("%w: an informer of %s needs Options.Resource", ErrInvalidOptions, ptr)
	}
	return nil
}

// find sets the kind. It reads the kind from the scheme or, if s is nil, from the package of a
// built-in type. For types that servers send as protobuf, find also derives the resource from the
// kind. For other types discovery finds the resource later, because a CustomResourceDefinition may
// choose any plural.
func (t *objectType) find(ptr reflect.Type, s *runtime.Scheme) error {
	var known bool
	if s == nil {
		t.gvk, known = builtinKind(ptr.Elem())
	} else if gvks, _, err := s.ObjectKinds(reflect.New(ptr.Elem()).Interface().(runtime.Object)); err == nil {
		t.gvk, known = gvks[0], true
	}
	if !known {
		return fmt.Errorf("%w: neither Options.Resource nor a Scheme that knows %s", ErrInvalidOptions, ptr)
	}
	if t.encoding == wire.Protobuf {
		t.resource = guessResource(t.gvk)
	}
	return nil
}

func (t *objectType) name() string {
	if t.resource.Empty() {
		return t.gvk.GroupKind().String()
	}
	return t.resource.GroupResource().String()
}

// source returns the source that sends the LISTs and WATCHes of the type in one scope.
func (t *objectType) source(cfg *rest.Config, sc scope, opts source.Options) (source.Source, error) {
	r := source.Resource{GVR: t.resource, Namespace: sc.namespace, MetadataOnly: t.metadata, Encoding: t.encoding}
	if !t.resource.Empty() {
		return source.New(cfg, r, opts)
	}
	return newDiscovered(cfg, t.gvk, r, opts)
}

// reflectorConfig returns the configuration of the type's reflectors. It returns ErrInvalidOptions
// if DropFields is invalid.
func (t *objectType) reflectorConfig(opts Options) (reflector.Config, error) {
	c := reflector.ConfigOf(opts.ListWatch)
	shard := opts.Shard.selector()
	c.SetShard(shard.String(), shard.Keep())
	c.Encoding = t.encoding
	c.Transcode = t.transcode()
	c.OnItemType = t.codec.SetItemType
	if len(opts.DropFields) > 0 {
		drop, err := wire.CompileDrop(t.encoding, t.goType, opts.DropFields...)
		if err != nil {
			return c, optionsError(err)
		}
		c.Drop = drop
	}
	return c, nil
}
