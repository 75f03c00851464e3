package controllerruntime

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
)

// Option configures the informers of a cache. A later option takes precedence over an earlier one.
type Option func(*settings)

// settings are the result of the options. It does not change after NewInformer has returned.
type settings struct {
	all    clientgo.Options
	byType map[objectType]clientgo.Options
}

// objectType identifies informers as controller-runtime does: by Go type and, for Go types that
// represent all kinds, by kind.
type objectType struct {
	goType reflect.Type
	gvk    schema.GroupVersionKind
}

func objectTypeOf(object runtime.Object) objectType {
	k := objectType{goType: reflect.TypeOf(object)}
	switch object.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		k.gvk = object.GetObjectKind().GroupVersionKind()
	}
	return k
}

func newSettings(opts []Option) *settings {
	s := &settings{byType: map[objectType]clientgo.Options{}}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// optionsOf returns the options of one informer. The scheme and the server are for options that
// have none.
func (s *settings) optionsOf(example runtime.Object, scheme *runtime.Scheme, server *weir.ServerGroup) clientgo.Options {
	opts, ok := s.byType[objectTypeOf(example)]
	if !ok {
		opts = s.all
	}
	if opts.Scheme == nil {
		opts.Scheme = scheme
	}
	if opts.Server == nil {
		opts.Server = server
	}
	return opts
}

// WithOptions sets the options of all informers that WithObjectOptions does not cover. The default
// is the zero value of clientgo.Options.
//
// PinDecoded suits a cache whose objects are all read all the time. PrivateCopies is rarely needed,
// because controller-runtime copies each object that is read; it also covers event handlers,
// predicates and UnsafeDisableDeepCopy. DetectMutation finds changes of objects that those share.
func WithOptions(opts clientgo.Options) Option {
	return func(s *settings) { s.all = opts }
}

// WithObjectOptions sets the options of the informers for objects of object's type, in place of
// those of WithOptions, as cache.Options.ByObject does for controller-runtime's. The typed,
// unstructured and metadata objects of a kind have separate informers. An unstructured or metadata
// object must state its kind. object is not kept.
func WithObjectOptions(object client.Object, opts clientgo.Options) Option {
	k := objectTypeOf(object)
	return func(s *settings) { s.byType[k] = opts }
}
