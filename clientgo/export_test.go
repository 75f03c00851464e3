package clientgo

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// client-go's own tests, which e2e/clientgo runs, call these functions instead of accessing private
// fields.

// NewTestInformer is NewSharedInformer, but returns a SharedIndexInformer.
func NewTestInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedIndexInformer {
	return NewSharedIndexInformer(lw, example, resync, cache.Indexers{})
}

// HandlerCount returns the number of handlers of an informer.
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

// Registered reports whether a registration belongs to an informer and was not removed.
func Registered(inf any, reg cache.ResourceEventHandlerRegistration) bool {
	i := inf.(*informer)
	i.mu.Lock()
	defer i.mu.Unlock()
	r, ok := reg.(*registration)
	_, is := i.handlers[r]
	return ok && is
}
