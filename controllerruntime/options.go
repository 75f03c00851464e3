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

// settings contains the result of the options. It does not change after newSettings has returned.
type settings struct {
	all    clientgo.Options
	byType map[objectType]clientgo.Options
}

// objectType identifies the informers that have the same options, as controller-runtime does: by Go
// type and, for the Go types that represent all kinds, also by kind.
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

// optionsOf returns the options of the informer for example. It sets their Scheme and Server to
// scheme and server if they have none.
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

// WithOptions sets the options of all informers for which WithObjectOptions sets none. The default
// is the zero value of clientgo.Options.
//
// PinDecoded suits a cache whose objects are all read all the time. PrivateCopies is rarely needed,
// because controller-runtime copies each object that a program reads; PrivateCopies also covers
// event handlers, predicates, and reads with UnsafeDisableDeepCopy. DetectMutation detects changes
// to the objects that handlers, predicates and such reads share.
func WithOptions(opts clientgo.Options) Option {
	return func(s *settings) { s.all = opts }
}

// WithObjectOptions sets the options of the informers for objects of object's type. They replace
// those of WithOptions. The typed, unstructured and metadata objects of a kind have separate
// informers. An unstructured or metadata object must state its kind. WithObjectOptions does not
// keep object.
func WithObjectOptions(object client.Object, opts clientgo.Options) Option {
	k := objectTypeOf(object)
	return func(s *settings) { s.byType[k] = opts }
}
