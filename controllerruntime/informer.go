package controllerruntime

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
)

// NewInformer returns a function for controller-runtime's cache.Options.NewInformer. Several caches
// may use the function, also concurrently.
//
// Call clientgo.Wrap on the config of these caches before clients are built from it. The informers
// then read the bodies of responses themselves. Without Wrap, they use the objects that
// controller-runtime has decoded. They also use decoded objects for a Go type whose name differs
// from its kind, unless clientgo.Options.Scheme contains the type. NewCache wraps the transport and
// sets the Scheme automatically.
//
// All informers of the function share one weir.ServerGroup, unless clientgo.Options.Server is set,
// because the function cannot detect which informers have the same API server. Call NewInformer
// again for the caches of another cluster.
func NewInformer(opts ...Option) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return newInformer(newSettings(opts), nil, &weir.ServerGroup{})
}

type informerFunc = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// newInformer returns the function that NewInformer returns. The arguments scheme and server are
// the defaults of the options Scheme and Server. scheme may be nil.
func newInformer(s *settings, scheme *runtime.Scheme, server *weir.ServerGroup) informerFunc {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformerWithOptions(lw, example, resync, indexers, s.optionsOf(example, scheme, server))
	}
}

// adopting returns a function that calls make, and returns the result of clientgo.Adopt for make's
// informer. It logs the types of an informer that Adopt cannot replace.
func adopting(make informerFunc, s *settings, scheme *runtime.Scheme, server *weir.ServerGroup) informerFunc {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		inf := clientgo.AdoptWithOptions(make(lw, example, resync, indexers), s.optionsOf(example, scheme, server))
		if err := clientgo.Err(inf); errors.Is(err, clientgo.ErrForeignInformer) {
			log.Log.WithName("weir").Info("A cache uses an informer of cache.Options.NewInformer that is not Weir's",
				"type", fmt.Sprintf("%T", example), "informer", fmt.Sprintf("%T", inf), "why", err.Error())
		}
		return inf
	}
}
