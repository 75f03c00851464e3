package clientgo

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// waitTimeout bounds every wait of the tests.
const waitTimeout = 2 * time.Minute

// constructor builds an informer: client-go's or Weir's.
type constructor func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// bothConstructors must behave alike.
var bothConstructors = map[string]constructor{
	"client-go": cache.NewSharedIndexInformer,
	"weir":      NewSharedIndexInformer,
}

// run runs an informer until the test ends or stop is called.
func run(t *testing.T, inf cache.SharedIndexInformer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// synced waits until every checker is done.
func synced(t *testing.T, checkers ...cache.DoneChecker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if !cache.WaitFor(ctx, "", checkers...) {
		t.Fatal("not synced")
	}
}
