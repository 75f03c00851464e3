package clientgo

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

func serve(t *testing.T, opts apiserver.Options) *apiserver.Server {
	t.Helper()
	opts.AnyNamespace = true
	server, err := apiserver.New(opts)
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func newFactory(t *testing.T, cfg *rest.Config, opts ...Option) informers.SharedInformerFactory {
	t.Helper()
	f, err := NewSharedInformerFactory(cfg, 0, opts...)
	check.NoError(t, err)
	return f
}

// begin runs a factory until the test ends, and waits until it has synced.
func begin(t *testing.T, f informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.StartWithContext(ctx)
	t.Cleanup(func() { cancel(); f.Shutdown() })
	within, done := context.WithTimeout(ctx, waitTimeout)
	defer done()
	check.NoError(t, f.WaitForCacheSyncWithContext(within).AsError())
}

func configMap(namespace, name string, l map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l},
		Data:       map[string]string{"name": name},
	}
}

func fill(t *testing.T, cfg *rest.Config, maps ...*corev1.ConfigMap) kubernetes.Interface {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(cfg)
	for _, m := range maps {
		if _, err := client.CoreV1().ConfigMaps(m.Namespace).Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// TestFactoryError checks that an invalid config is an error.
func TestFactoryError(t *testing.T) {
	for name, bad := range map[string]*rest.Config{"no config": nil, "a bad host": {Host: "http://[::bad"}} {
		if _, err := NewSharedInformerFactory(bad, 0); err == nil {
			t.Errorf("%s: NewSharedInformerFactory", name)
		}
		if _, err := NewDynamicSharedInformerFactory(bad, 0); err == nil {
			t.Errorf("%s: NewDynamicSharedInformerFactory", name)
		}
		if _, err := NewMetadataSharedInformerFactory(bad, 0); err == nil {
			t.Errorf("%s: NewMetadataSharedInformerFactory", name)
		}
	}
}

// TestFactoryNotSynced checks that the factory's wait ends with its context and reports which
// informers have not synced, and that no informer starts after Shutdown.
func TestFactoryNotSynced(t *testing.T) {
	f := newFactory(t, &rest.Config{Host: "http://127.0.0.1:1"})
	f.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(context.Background())
	f.StartWithContext(ctx)
	within, done := context.WithTimeout(ctx, 50*time.Millisecond)
	defer done()
	result := f.WaitForCacheSyncWithContext(within)
	if err := result.AsError(); err == nil || !strings.Contains(err.Error(), "Pod") {
		t.Errorf("error %v", err)
	}
	if result.Synced[reflect.TypeFor[*corev1.Pod]()] {
		t.Error("synced without a server")
	}
	cancel()
	f.Shutdown()
	f.Core().V1().Secrets().Informer()
	f.Start(make(chan struct{}))
	if started := f.WaitForCacheSync(within.Done()); len(started) != 1 {
		t.Errorf("started after Shutdown: %v", started)
	}
}
