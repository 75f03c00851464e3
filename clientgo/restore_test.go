//go:build !weir_safe

package clientgo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// TestFactoryRestore restores a server from a backup. The watch of the factory's first informer
// breaks, so that this informer detects the restore. The watch of the second informer stays open
// without events, and the restored server has reached the second informer's version again; this
// informer must list again too. An informer of another factory must not list again. If Adopt built
// all informers, all of them must list again, because they share a ServerGroup.
func TestFactoryRestore(t *testing.T) {
	resource := schema.GroupVersion{Version: "v1"}.WithResource
	for name, build := range map[string]func(t *testing.T, cfg *rest.Config) (configMaps, secrets cache.SharedIndexInformer){
		"typed": func(t *testing.T, cfg *rest.Config) (configMaps, secrets cache.SharedIndexInformer) {
			f := newFactory(t, cfg)
			return f.Core().V1().ConfigMaps().Informer(), f.Core().V1().Secrets().Informer()
		},
		"dynamic": func(t *testing.T, cfg *rest.Config) (configMaps, secrets cache.SharedIndexInformer) {
			f := NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
			return f.ForResource(resource("configmaps")).Informer(), f.ForResource(resource("secrets")).Informer()
		},
		"adopted": func(t *testing.T, cfg *rest.Config) (configMaps, secrets cache.SharedIndexInformer) {
			f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(capturing(cfg)), 0)
			return Adopt(f.Core().V1().ConfigMaps().Informer()), Adopt(f.Core().V1().Secrets().Informer())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := api.NewRewound()
				cfg := &rest.Config{Host: "http://server", Transport: server}
				configMaps, secrets := build(t, cfg)
				_, elsewhere := build(t, cfg)
				ctx, cancel := context.WithCancel(context.Background())
				for _, inf := range []cache.SharedIndexInformer{configMaps, secrets, elsewhere} {
					// client-go's default handler may sleep for years of the bubble's clock, see quiet.
					check.NoError(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
					go inf.RunWithContext(ctx)
				}
				time.Sleep(time.Minute)
				server.Restore()
				time.Sleep(20 * time.Second)
				for name, inf := range map[string]cache.SharedIndexInformer{"configmaps": configMaps, "secrets": secrets} {
					check.Equal(t, stateOf(t, inf), "after", "%s are from the restore", name)
				}
				lists, elsewhereIs := 3, "before"
				if name == "adopted" {
					lists, elsewhereIs = 4, "after"
				}
				check.Equal(t, server.Secrets.Lists(), lists, "lists of secrets, two of them at first")
				check.Equal(t, stateOf(t, elsewhere), elsewhereIs, "the other factory's secrets are from the restore")
				cancel()
				synctest.Wait()
			})
		})
	}
}

func stateOf(t *testing.T, inf cache.SharedIndexInformer) string {
	t.Helper()
	o, ok, err := inf.GetStore().GetByKey("n/o")
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	m, err := meta.Accessor(o)
	check.NoError(t, err)
	return m.GetLabels()["app"]
}
