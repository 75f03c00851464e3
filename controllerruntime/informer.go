package controllerruntime

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/reflector"
)

// NewInformer makes a cache.Options.NewInformer of controller-runtime. What it returns can be used by any number of caches,
// at the same time too.
//
// The config of those caches must have been through clientgo.Wrap before clients were built from it for bodies to be
// read as they arrive; NewCache sees to that itself. Without it objects are taken from the lists and watches that
// controller-runtime has decoded. So they are for a Go type that is not called like its kind, unless the informer's options
// have a scheme that knows it; NewCache sees to that too.
func NewInformer(opts ...Option) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return newInformer(newSettings(opts), nil, nil)
}

// newInformer is NewInformer for a cache of a known scheme and server; of any where they are nil.
func newInformer(s *settings, scheme *runtime.Scheme, server *reflector.Server) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		opts := s.of(example)
		if opts.Scheme == nil {
			opts.Scheme = scheme
		}
		if opts.Reflector.Server == nil {
			opts.Reflector.Server = server
		}
		return clientgo.NewSharedIndexInformerWithOptions(lw, example, resync, indexers, opts)
	}
}
