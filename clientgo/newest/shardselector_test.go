// Package newest tests the drop-in with packages that the oldest supported client-go lacks. These
// tests cannot be in package clientgo: go mod tidy of a user's module loads the tests of imported
// packages, and fails if one of them imports a package that does not exist.
package newest

import (
	"context"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/sharding"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestSetShardSelector checks that an informer stores the objects of the shard that
// SetShardSelector sets, before or after the informer is adopted. Versions of client-go before
// v0.38 have no such method.
func TestSetShardSelector(t *testing.T) {
	if _, ok := reflect.TypeFor[cache.SharedIndexInformer]().MethodByName("SetShardSelector"); !ok {
		return
	}
	server, err := apiserver.New(apiserver.Options{Pods: 200})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	client := kubernetes.NewForConfigOrDie(clientgo.Wrap(rest.CopyConfig(server.Config())))
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
			return clientgo.Adopt(inf)
		},
		"after": func(i int) cache.SharedIndexInformer {
			inf := clientgo.AdoptWithOptions(build(), clientgo.Options{Shard: weir.Shard{Index: 1, Count: 3}})
			check.NoError(t, set(inf, i))
			return inf
		},
		"before, with a shadow": func(i int) cache.SharedIndexInformer {
			inf := build()
			check.NoError(t, set(inf, i))
			return clientgo.AdoptWithOptions(inf, clientgo.Options{Shadow: clientgo.ShadowClientGo})
		},
		"after, with a shadow": func(i int) cache.SharedIndexInformer {
			inf := clientgo.AdoptWithOptions(build(), clientgo.Options{Shadow: clientgo.ShadowWeir})
			check.NoError(t, set(inf, i))
			return inf
		},
		"after, off": func(i int) cache.SharedIndexInformer {
			inf := clientgo.AdoptWithOptions(build(), clientgo.Options{Off: true, Shard: weir.Shard{Index: 1, Count: 3}})
			check.NoError(t, set(inf, i))
			return inf
		},
	} {
		n := 0
		for i := range 2 {
			inf := sharded(i)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); inf.RunWithContext(ctx) }()
			t.Cleanup(func() { cancel(); <-ended })
			if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
				t.Fatal("not synced")
			}
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
