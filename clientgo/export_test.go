package clientgo

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// What client-go's own tests look up in private fields of its informers.

// NewTestInformer is NewSharedInformer as one of indexes.
func NewTestInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedIndexInformer {
	return NewSharedIndexInformer(lw, example, resync, cache.Indexers{})
}

// HandlerCount is how many handlers an informer has.
func HandlerCount(inf any) int {
	i := inf.(*informer)
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.handlers)
}

// Started reports whether an informer was started.
func Started(inf any) bool {
	i := inf.(*informer)
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.started
}

// Registered reports whether a registration is one of an informer's.
func Registered(inf any, reg cache.ResourceEventHandlerRegistration) bool {
	i := inf.(*informer)
	i.mu.Lock()
	defer i.mu.Unlock()
	r, ok := reg.(*registration)
	_, is := i.handlers[r]
	return ok && is
}
