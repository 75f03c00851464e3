//go:build !oldest && !weir_safe

package clientgo

import (
	"context"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
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

// TestSetShardSelector checks that an informer stores the objects of the shard that
// SetShardSelector sets, before or after the informer is adopted. Versions of client-go before
// v0.38 have no such method.
func TestSetShardSelector(t *testing.T) {
	if _, ok := reflect.TypeFor[cache.SharedIndexInformer]().MethodByName("SetShardSelector"); !ok {
		return
	}
	server := serve(t, apiserver.Options{Pods: 200})
	client := kubernetes.NewForConfigOrDie(capturing(server.Config()))
	set := func(inf cache.SharedIndexInformer, i int) error {
		half := [][2]string{{"0x0000000000000000", "0x8000000000000000"}, {"0x8000000000000000", "0x10000000000000000"}}[i]
		selector := sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: half[0], End: half[1]})
		err, _ := reflect.ValueOf(inf).MethodByName("SetShardSelector").Call([]reflect.Value{reflect.ValueOf(selector)})[0].Interface().(error)
		return err
	}
	build := func() cache.SharedIndexInformer { return coreinformers.NewPodInformer(client, "", 0, cache.Indexers{}) }
	for how, sharded := range map[string]func(i int) cache.SharedIndexInformer{
		"before": func(i int) cache.SharedIndexInformer {
			inf := build()
			check.NoError(t, set(inf, i))
			return Adopt(inf)
		},
		"after": func(i int) cache.SharedIndexInformer {
			inf := AdoptWithOptions(build(), Options{Shard: weir.Shard{Index: 1, Count: 3}})
			check.NoError(t, set(inf, i))
			return inf
		},
	} {
		n := 0
		for i := range 2 {
			inf := sharded(i)
			runSynced(t, inf)
			held := len(inf.GetStore().ListKeys())
			if n += held; held < 60 || held > 140 {
				t.Errorf("%s: shard %d of 2 has %d of 200", how, i, held)
			}
			if set(inf, i) == nil {
				t.Errorf("%s: SetShardSelector succeeds after the start", how)
			}
		}
		check.Equal(t, n, 200, how)
	}
}

// TestLaterGroups checks the informers of an API group that client-go added after v0.36.
// client-go's factory must provide them, and they must start, sync and stop together with Weir's.
func TestLaterGroups(t *testing.T) {
	f := NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0, WithCustomResyncConfig(map[metav1.Object]time.Duration{
		&lifecyclev1alpha1.Eviction{}: time.Hour, &corev1.Pod{}: 2 * time.Hour,
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
