package controllerruntime

import (
	"cmp"
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

// settings contains the result of the options. It does not change after newSettings has returned.
type settings struct {
	all    clientgo.Options
	byType map[objectType]clientgo.Options
}

// objectType identifies the objects to which one call of WithObjectOptions applies. Like
// controller-runtime, it uses the Go type and, for unstructured and metadata objects, also the
// kind.
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

// optionsOf returns the options of the informer for objects like example. scheme and server are the
// defaults of the options Scheme and Server.
func (s *settings) optionsOf(example runtime.Object, scheme *runtime.Scheme, server *weir.ServerGroup) clientgo.Options {
	opts, ok := s.byType[objectTypeOf(example)]
	if !ok {
		opts = s.all
	}
	opts.Scheme = cmp.Or(opts.Scheme, scheme)
	opts.Server = cmp.Or(opts.Server, server)
	return opts
}

// WithOptions sets the options of all informers for which WithObjectOptions sets none. The default
// is the zero value of clientgo.Options.
//
// Set PinDecoded if the program reads all objects of the cache all the time. PrivateCopies is
// rarely needed, because controller-runtime already copies each object that a program reads. With
// PrivateCopies, event handlers, predicates, and reads with UnsafeDisableDeepCopy also receive
// copies. Without PrivateCopies, all of these receive shared objects; DetectMutation detects
// changes to shared objects.
func WithOptions(opts clientgo.Options) Option {
	return func(s *settings) { s.all = opts }
}

// WithObjectOptions sets the options of the informers for objects of object's type, in place of the
// options of WithOptions. The typed, unstructured and metadata objects of a kind have separate
// informers. If object is unstructured or metadata, it must state its kind. WithObjectOptions does
// not keep object.
func WithObjectOptions(object client.Object, opts clientgo.Options) Option {
	k := objectTypeOf(object)
	return func(s *settings) { s.byType[k] = opts }
}
