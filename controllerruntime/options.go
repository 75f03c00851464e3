package controllerruntime

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/clientgo"
)

// Option tunes the informers of a cache. Of two that say the same the later one counts.
type Option func(*settings)

// settings are what options say. They do not change once NewInformer has returned.
type settings struct {
	all  clientgo.Options
	kind map[kind]clientgo.Options
}

// kind tells informers apart as controller-runtime does: by Go type, and where one type stands for all kinds, by kind.
type kind struct {
	goType reflect.Type
	gvk    schema.GroupVersionKind
}

func kindOf(object runtime.Object) kind {
	k := kind{goType: reflect.TypeOf(object)}
	switch object.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		k.gvk = object.GetObjectKind().GroupVersionKind()
	}
	return k
}

func newSettings(opts []Option) *settings {
	s := &settings{kind: map[kind]clientgo.Options{}}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// of gives the options of one informer.
func (s *settings) of(example runtime.Object) clientgo.Options {
	if opts, ok := s.kind[kindOf(example)]; ok {
		return opts
	}
	return s.all
}

// WithOptions sets the options of all informers that WithObjectOptions says nothing about. Without it they are the zero
// value of clientgo.Options.
//
// PinDecoded is for a cache of which everything is read all the time; PrivateCopies is rarely needed, because
// controller-runtime makes a copy for each read itself, but it covers event handlers, predicates and
// UnsafeDisableDeepCopy; DetectMutation finds who changes what those share.
func WithOptions(opts clientgo.Options) Option {
	return func(s *settings) { s.all = opts }
}

// WithObjectOptions sets the options of the informers for objects such as this one, in place of those of WithOptions, as
// cache.Options.ByObject does for controller-runtime's. Typed, unstructured and metadata objects of a kind have informers
// of their own; an unstructured and a metadata object must say their kind. object is not kept.
func WithObjectOptions(object client.Object, opts clientgo.Options) Option {
	k := kindOf(object)
	return func(s *settings) { s.kind[k] = opts }
}
