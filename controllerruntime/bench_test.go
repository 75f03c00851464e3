package controllerruntime_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// benchPods is the number of pods. 20 of them belong to the app that the benchmark lists.
const benchPods = 10_000

// BenchmarkListByIndex measures a List by an index on a label, as a controller calls it in each
// reconcile. The cache has 10,000 pods; the List returns the 20 pods of one app. heap-MB is the
// process's heap after the benchmark. It includes the server's heap, which has the same size with
// Weir's cache and with controller-runtime's. first-ms is the time of the first List, in which
// Weir's informers call the index function for all objects.
func BenchmarkListByIndex(b *testing.B) {
	pods := podsim.New(benchPods, 0)
	apps := pods.Apps()
	for _, tc := range []struct {
		name     string
		newCache cache.NewCacheFunc
	}{{"clientgo", cache.New}, {"weir", controllerruntime.NewCache()}} {
		b.Run(tc.name, func(b *testing.B) {
			server, err := apiserver.New(apiserver.Options{Pods: benchPods})
			check.NoError(b, err)
			defer server.Close()
			check.NoError(b, server.Start())
			ctx, cancel := context.WithCancel(context.Background())
			c, err := tc.newCache(server.Config(), cache.Options{})
			check.NoError(b, err)
			check.NoError(b, c.IndexField(ctx, &corev1.Pod{}, "app", byApp))
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = c.Start(ctx)
			}()
			defer func() {
				cancel()
				<-done
			}()
			if !c.WaitForCacheSync(ctx) { // for the informer that IndexField has requested
				b.Fatal("not synced")
			}
			began := time.Now()
			var warm corev1.PodList
			check.NoError(b, c.List(ctx, &warm, client.MatchingFields{"app": apps[0]}))
			first := time.Since(began)
			for b.Loop() {
				var list corev1.PodList
				if err := c.List(ctx, &list, client.MatchingFields{"app": apps[0]}); err != nil || len(list.Items) != 20 {
					b.Fatal(len(list.Items), err)
				}
			}
			b.ReportMetric(heapMB(), "heap-MB")
			b.ReportMetric(float64(first.Microseconds())/1e3, "first-ms")
		})
	}
}

func heapMB() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
