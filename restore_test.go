package weir_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// TestFactoryRestore restores the server from a backup. Only one informer of a factory can detect
// the restore, but all informers of the factory must list again. The watch of the first informer
// breaks. The watch of the second informer stays open without events, and the restored server has
// reached the second informer's version again. An informer that starts later must list only once.
func TestFactoryRestore(t *testing.T) {
	for name, opts := range map[string]weir.Options{
		"one reflector":  {},
		"two reflectors": {Namespaces: []string{"n", "m"}},
		"of pages":       {ListWatch: weir.ListWatch{Mode: weir.ModePages}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := api.NewRewound()
				f := weir.NewFactory(context.Background(), &rest.Config{Host: "http://server", Transport: server})
				configMaps := acquire[*corev1.ConfigMap](t, f, weir.Options{})
				secrets := acquire[*corev1.Secret](t, f, opts)
				time.Sleep(time.Minute)
				lists := server.Secrets.Lists()
				server.Restore()
				time.Sleep(20 * time.Second)
				for name, get := range map[string]func() (metaObject, error){
					"configmaps": func() (metaObject, error) { return configMaps.Get("n/o") },
					"secrets":    func() (metaObject, error) { return secrets.Get("n/o") },
				} {
					if o, err := get(); err != nil || o.GetLabels()["app"] != "after" {
						t.Errorf("%s are %v, %v", name, o, err)
					}
				}
				check.Equal(t, server.Secrets.Lists(), 2*lists, "%d lists of secrets at first, and with those after the restore", lists)
				late := acquire[*corev1.Secret](t, f, weir.Options{Namespaces: []string{"n"}})
				time.Sleep(20 * time.Second)
				if n := server.Secrets.Lists(); !late.HasSynced() || n != 2*lists+1 {
					t.Errorf("%d lists after another informer has begun, synced: %v", n, late.HasSynced())
				}
				check.NoError(t, f.Shutdown())
			})
		})
	}
}

type metaObject interface{ GetLabels() map[string]string }
