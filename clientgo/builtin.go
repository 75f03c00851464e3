package clientgo

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// builtinResource finds the type of a resource and how client-go builds its informer, by asking client-go's own factory:
// which resources there are is in generated code that nothing else can read.
func builtinResource(f *factory, resource schema.GroupVersionResource) (runtime.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer, error) {
	s := f.settings
	build := func(client kubernetes.Interface, resync time.Duration, name *cache.InformerName) (cache.SharedIndexInformer, error) {
		generated := informers.NewSharedInformerFactoryWithOptions(client, resync,
			informers.WithNamespace(s.namespace), informers.WithTweakListOptions(s.tweak), informers.WithInformerName(name))
		generic, err := generated.ForResource(resource)
		if err != nil {
			return nil, err
		}
		return generic.Informer(), nil
	}
	probe, err := build(f.client, 0, nil) // without the name, which each resource may be given once
	if err != nil {
		return nil, nil, err
	}
	p, ok := takeApart(probe)
	if !ok {
		return nil, nil, fmt.Errorf("%s: %w", resource, ErrLayout)
	}
	example := reflect.New(reflect.TypeOf(p.example).Elem()).Interface().(runtime.Object)
	return example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		inf, err := build(client, resync, s.name)
		if err != nil {
			return probe // it has just been built without an error
		}
		return inf
	}, nil
}
