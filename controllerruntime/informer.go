package controllerruntime

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
)

// NewInformer returns a function for controller-runtime's cache.Options.NewInformer. Any number of
// caches may use it, concurrently.
//
// Call clientgo.Wrap on the config of those caches before clients are built from it, so that bodies
// are read as they arrive. Without that the informers take objects from the lists and watches that
// controller-runtime has decoded. They do so too for a Go type that does not have its kind's name,
// unless the informer's options have a scheme that knows the type. NewCache does both by itself.
//
// All informers of the function share a weir.Server unless their options have one, because the
// function cannot know which of them are of one API server: take another function for the caches of
// another cluster.
func NewInformer(opts ...Option) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return newInformer(newSettings(opts), nil, &weir.Server{})
}

// newInformer returns NewInformer's function for a scheme, which may be nil, and a server. They are
// used where an informer's options have none.
func newInformer(s *settings, scheme *runtime.Scheme, server *weir.Server) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		opts := s.optionsFor(example)
		if opts.Scheme == nil {
			opts.Scheme = scheme
		}
		if opts.Server == nil {
			opts.Server = server
		}
		return clientgo.NewSharedIndexInformerWithOptions(lw, example, resync, indexers, opts)
	}
}
