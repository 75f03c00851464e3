package clientgo

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// informerSet has a factory's informers, those requested and those started, by what the factory
// tells them apart by. Safe for concurrent use.
type informerSet[K comparable] struct {
	mu        sync.Mutex
	informers map[K]cache.SharedIndexInformer
	started   map[K]bool
	closing   bool
	runs      sync.WaitGroup // one for each started informer; they end with the context that Start got
}

func newInformerSet[K comparable]() informerSet[K] {
	return informerSet[K]{informers: map[K]cache.SharedIndexInformer{}, started: map[K]bool{}}
}

// get returns the informer of a key, and builds it first if there is none.
func (r *informerSet[K]) get(key K, build func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if inf, ok := r.informers[key]; ok {
		return inf
	}
	inf := build()
	r.informers[key] = inf
	return inf
}

// start runs the requested informers that do not run yet, until the context ends. It does nothing
// after shutdown.
func (r *informerSet[K]) start(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return
	}
	for key, inf := range r.informers {
		if !r.started[key] {
			r.started[key] = true
			r.runs.Go(func() { inf.RunWithContext(ctx) })
		}
	}
}

// shutdown blocks until the informers have ended. The caller must end their contexts.
func (r *informerSet[K]) shutdown() {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.runs.Wait()
}

// waitForSync blocks until the started informers have synced or the context ends, and reports which
// have. The error is the context's cause if one has not.
func (r *informerSet[K]) waitForSync(ctx context.Context) (map[K]bool, error) {
	r.mu.Lock()
	waiting := map[K]cache.DoneChecker{}
	for key, inf := range r.informers {
		if r.started[key] {
			waiting[key] = inf.HasSyncedChecker()
		}
	}
	r.mu.Unlock()
	synced, missing := make(map[K]bool, len(waiting)), false
	for key, checker := range waiting {
		select {
		case <-checker.Done():
		case <-ctx.Done():
		}
		synced[key] = cache.IsDone(checker)
		missing = missing || !synced[key]
	}
	if missing {
		return synced, context.Cause(ctx)
	}
	return synced, nil
}
