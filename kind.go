package weir

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/codec"
	"github.com/weirproject/weir/internal/decode"
	"github.com/weirproject/weir/internal/mutation"
	"github.com/weirproject/weir/internal/reflector"
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
	codec    *codec.Codec
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
	k := &kind{resource: opts.Resource, goType: ptr.Elem(), encoding: wire.JSON, codec: codec.New(ptr)}
	switch any(*new(T)).(type) {
	case *unstructured.Unstructured:
		k.goType = nil
		return k, k.needResource(ptr)
	case *metav1.PartialObjectMetadata:
		k.as, k.encoding = source.PartialObjectMetadata, wire.Protobuf
		return k, k.needResource(ptr)
	}
	if isProtobuf(ptr) {
		k.encoding = wire.Protobuf
	}
	if !opts.Resource.Empty() {
		return k, nil
	}
	if err := k.find(ptr, opts.Scheme); err != nil {
		return nil, err
	}
	return k, nil
}

// decoder returns how shared objects are decoded. With ShareDecoded they share equal parts, unless
// copies are private or mutations are looked for.
func (k *kind) decoder(opts Options) func(raw []byte) (any, error) {
	if opts.ShareDecoded && !opts.PrivateCopies && !opts.DetectMutation && !mutation.ByEnvironment() {
		return k.codec.DecodeShared
	}
	return k.codec.Decode
}

// transcode returns a reflector's Transcode. It is nil for types that are held as JSON.
func (k *kind) transcode() func(dst, object []byte) ([]byte, error) {
	if k.encoding != wire.Protobuf {
		return nil
	}
	return k.codec.AppendProtobuf
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

// find sets the kind: by the scheme or, without one, that of a built-in type by its package. The
// resource of a built-in kind follows from its name; others are left to discovery, because a
// CustomResourceDefinition may choose any.
func (k *kind) find(ptr reflect.Type, s *runtime.Scheme) error {
	var known bool
	if s == nil {
		k.gvk, known = builtinKind(ptr.Elem())
	} else if gvks, _, err := s.ObjectKinds(reflect.New(ptr.Elem()).Interface().(runtime.Object)); err == nil {
		k.gvk, known = gvks[0], true
	}
	if !known {
		return fmt.Errorf("%w: neither Options.Resource nor a Scheme that knows %s", ErrOptions, ptr)
	}
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

// reflectorConfig returns what the reflectors of the kind's objects are configured with.
func (k *kind) reflectorConfig(opts Options) (reflector.Config, error) {
	c := opts.ListWatch.config()
	c.Keep = opts.Shard.selector().Keep()
	c.Encoding = k.encoding
	c.Transcode = k.transcode()
	c.OnItemType = k.codec.SetItemType
	if len(opts.Drop) > 0 {
		drop, err := wire.CompileDrop(k.encoding, k.goType, opts.Drop...)
		if err != nil {
			return c, optionsError(err)
		}
		c.Drop = drop
	}
	return c, nil
}
