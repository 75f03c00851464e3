package controllerruntime

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
)

// NewInformer returns a function for controller-runtime's cache.Options.NewInformer. Any number of
// caches may use it, concurrently.
//
// Call clientgo.Wrap on the config of those caches before clients are built from it, so that the
// informers read bodies as they arrive. Otherwise the informers use the objects that
// controller-runtime has decoded. They do so too for a Go type whose name is not its kind, unless
// the informer's options have a scheme that knows the type. NewCache does both automatically.
//
// All informers of the function share a weir.ServerGroup unless their options have one, because the
// function cannot know which of them have the same API server: create another function for the
// caches of another cluster.
func NewInformer(opts ...Option) func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer {
	return newInformer(newSettings(opts), nil, &weir.ServerGroup{})
}

// informerFunc is the type of cache.Options.NewInformer: it creates the informers of a cache.
type informerFunc = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// newInformer returns NewInformer's function for a scheme, which may be nil, and a server. They are
// used if an informer's options have none.
func newInformer(s *settings, scheme *runtime.Scheme, server *weir.ServerGroup) informerFunc {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return clientgo.NewSharedIndexInformerWithOptions(lw, example, resync, indexers, s.optionsOf(example, scheme, server))
	}
}

// ErrNotAdopted is returned by reads and by GetInformer of a cache of NewCache, if the informer
// that cache.Options.NewInformer returned is neither Weir's nor one that clientgo.Adopt can adopt.
var ErrNotAdopted = errors.New("controllerruntime: the informer of cache.Options.NewInformer cannot be adopted")

// adopting returns a function that adopts the informers that make returns.
func adopting(make informerFunc, s *settings, scheme *runtime.Scheme, server *weir.ServerGroup) informerFunc {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		inf := clientgo.AdoptWithOptions(make(lw, example, resync, indexers), s.optionsOf(example, scheme, server))
		if err := clientgo.Err(inf); errors.Is(err, clientgo.ErrForeignInformer) {
			return notAdopted{inf, fmt.Errorf("%w: %w", ErrNotAdopted, err)}
		}
		return inf
	}
}

// notAdopted is an informer that cannot be used. controller-runtime calls SetTransform on each new
// informer and returns its error.
type notAdopted struct {
	toolscache.SharedIndexInformer
	err error
}

func (n notAdopted) SetTransform(toolscache.TransformFunc) error { return n.err }

func (n notAdopted) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return n.err
}
