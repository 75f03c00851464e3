package clientgo

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// informerSet has a factory's informers, requested and started ones, by the factory's key. Safe for
// concurrent use.
type informerSet[K comparable] struct {
	mu        sync.Mutex
	informers map[K]cache.SharedIndexInformer
	started   map[K]bool
	closing   bool
	runs      sync.WaitGroup // one per started informer; they end with the context of Start
}

func newInformerSet[K comparable]() informerSet[K] {
	return informerSet[K]{informers: map[K]cache.SharedIndexInformer{}, started: map[K]bool{}}
}

// get returns the informer of a key. It builds the informer if there is none.
func (s *informerSet[K]) get(key K, build func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inf, ok := s.informers[key]; ok {
		return inf
	}
	inf := build()
	s.informers[key] = inf
	return inf
}

// start runs the requested informers that do not run yet, until the context ends. It does nothing
// after shutdown.
func (s *informerSet[K]) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	for key, inf := range s.informers {
		if !s.started[key] {
			s.started[key] = true
			s.runs.Go(func() { inf.RunWithContext(ctx) })
		}
	}
}

// shutdown blocks until the informers have ended. The caller must end their contexts.
func (s *informerSet[K]) shutdown() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.runs.Wait()
}

// waitForSync blocks until the started informers have synced or the context ends, and reports which
// have. The error is the context's cause if one has not.
func (s *informerSet[K]) waitForSync(ctx context.Context) (map[K]bool, error) {
	s.mu.Lock()
	waiting := map[K]cache.DoneChecker{}
	for key, inf := range s.informers {
		if s.started[key] {
			waiting[key] = inf.HasSyncedChecker()
		}
	}
	s.mu.Unlock()
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
