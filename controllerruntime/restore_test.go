package controllerruntime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// TestNewInformerRestore restores a server from a backup. Two informers are from one function of
// NewInformer. The watch of the first one breaks, so that this informer detects the restore. The
// watch of the second one stays open without events; this informer must list again too. An informer
// from another function of NewInformer must not list again.
func TestNewInformerRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := api.NewRewound()
		cfg := &rest.Config{Host: "http://server", Transport: server}
		clientgo.Wrap(cfg)
		from := kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient()
		ctx, cancel := context.WithCancel(context.Background())
		newInformer, another := controllerruntime.NewInformer(), controllerruntime.NewInformer()
		run := func(newInformer func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer, resource string, example runtime.Object) toolscache.SharedIndexInformer {
			inf := newInformer(toolscache.NewListWatchFromClient(from, resource, "", fields.Everything()), example, 0, nil)
			// client-go's default handler sleeps between two logged errors, by a clock outside of the
			// synctest bubble.
			check.NoError(t, inf.SetWatchErrorHandler(func(*toolscache.Reflector, error) {}))
			go inf.RunWithContext(ctx)
			return inf
		}
		configMaps, secrets := run(newInformer, "configmaps", &corev1.ConfigMap{}), run(newInformer, "secrets", &corev1.Secret{})
		elsewhere := run(another, "secrets", &corev1.Secret{})
		time.Sleep(time.Minute)
		server.Restore()
		time.Sleep(20 * time.Second)
		for inf, want := range map[toolscache.SharedIndexInformer]string{configMaps: "after", secrets: "after", elsewhere: "before"} {
			o, _, err := inf.GetStore().GetByKey("n/o")
			check.NoError(t, err)
			m, err := meta.Accessor(o)
			check.NoError(t, err)
			check.Equal(t, m.GetLabels()["app"], want, "%T is from the restore", o)
		}
		check.Equal(t, server.Secrets.Lists(), 3, "lists of secrets, two of them at first")
		cancel()
		synctest.Wait()
	})
}
