//go:build !oldest && !weir_safe

package clientgo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestAdoptsTyped checks that Adopt replaces an informer that client-go's typed wrapper contains.
func TestAdoptsTyped(t *testing.T) {
	typed := Adopt(cache.NewTypedSharedIndexInformer[*corev1.ConfigMap](cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, nil)))
	if _, ok := typed.(*informer); !ok {
		t.Errorf("client-go's typed informer became %T", typed)
	}
}

// TestCheckerName checks that the checker of an adopted informer has its description.
func TestCheckerName(t *testing.T) {
	built := cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "my pods"})
	check.Equal(t, Adopt(built).HasSyncedChecker().Name(), "SharedIndexInformer my pods")
}

// TestLaterGroups checks the informers of an API group that client-go added after v0.36.
// client-go's factory must provide them, and they must start, sync and stop together with Weir's.
func TestLaterGroups(t *testing.T) {
	// An import of the group would make go mod tidy fail in modules with an older client-go.
	eviction, err := scheme.Scheme.New(schema.GroupVersionKind{Group: "lifecycle.k8s.io", Version: "v1alpha1", Kind: "Eviction"})
	check.NoError(t, err)
	f := NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0, WithCustomResyncConfig(map[metav1.Object]time.Duration{
		eviction.(metav1.Object): time.Hour, &corev1.Pod{}: 2 * time.Hour,
	}))
	ctx, cancel := context.WithCancel(t.Context())
	inf := f.Lifecycle().V1alpha1().Evictions().Informer()
	pods := f.Core().V1().Pods().Informer()
	theirs, _ := fieldsOf(inf)
	if i, err := informerOf(pods); err != nil || theirs.resync != time.Hour || i.defaultResync != 2*time.Hour {
		t.Errorf("%v, resync periods %s and %s", err, theirs.resync, i.defaultResync)
	}
	f.StartWithContext(ctx)
	synced := f.WaitForCacheSyncWithContext(ctx)
	if synced.Err != nil || len(synced.Synced) != 2 || !inf.HasSynced() || !pods.HasSynced() {
		t.Errorf("%+v; synced: %v, %v", synced, inf.HasSynced(), pods.HasSynced())
	}
	cancel()
	f.Shutdown()
	if !inf.IsStopped() || !pods.IsStopped() {
		t.Error("an informer goes on after Shutdown")
	}
}

// TestWatchErrorVersion checks that the Reflector that a watch error handler receives has the
// resourceVersion up to which everything was received, as with client-go.
func TestWatchErrorVersion(t *testing.T) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return podList("10"), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
		},
	}
	type runner interface{ RunWithContext(context.Context) }
	informer := func(build constructor) func(cache.WatchErrorHandlerWithContext) runner {
		return func(handler cache.WatchErrorHandlerWithContext) runner {
			inf := build(lw, &corev1.Pod{}, 0, nil)
			check.NoError(t, inf.SetWatchErrorHandlerWithContext(handler))
			return inf
		}
	}
	for name, build := range map[string]func(cache.WatchErrorHandlerWithContext) runner{
		"client-go": informer(cache.NewSharedIndexInformer),
		"weir":      informer(NewSharedIndexInformer),
		"controller": func(handler cache.WatchErrorHandlerWithContext) runner {
			return New(&cache.Config{ListerWatcher: lw, ObjectType: &corev1.Pod{}, Process: newProgram().process, WatchErrorHandlerWithContext: handler})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			version := ""
			build(func(_ context.Context, r *cache.Reflector, _ error) {
				version = r.LastSyncResourceVersion()
				cancel()
			}).RunWithContext(ctx)
			check.Equal(t, version, "10", name)
		})
	}
}
