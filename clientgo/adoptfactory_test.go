//go:build !weir_safe

package clientgo

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// requestedPaths records the paths of the requests of a config's clients.
type requestedPaths struct {
	mu  sync.Mutex
	all map[string]bool
}

func recordPaths(cfg *rest.Config) (*rest.Config, *requestedPaths) {
	paths := &requestedPaths{all: map[string]bool{}}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			paths.mu.Lock()
			paths.all[req.URL.Path] = true
			paths.mu.Unlock()
			return next.RoundTrip(req)
		})
	})
	return cfg, paths
}

func (p *requestedPaths) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for path := range p.all {
		all = append(all, path)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestAdoptFactory checks that an adopted factory returns Weir's informers with the factory's own
// namespace, selector, resync periods, transform and indexers, and that it starts only the
// informers that the program uses.
func TestAdoptFactory(t *testing.T) {
	server := serve(t, apiserver.Options{})
	held := map[string]string{"held": "yes"}
	fill(t, server.Config(), configMap("one", "a", held), configMap("one", "b", nil), configMap("two", "c", held))
	cfg, paths := recordPaths(server.Config())
	theirs := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(capturing(cfg)), time.Hour,
		informers.WithNamespace("one"), informers.WithTweakListOptions(onlyHeld), informers.WithTransform(withoutData),
		informers.WithCustomResyncConfig(map[metav1.Object]time.Duration{&corev1.ConfigMap{}: time.Minute}))
	f := AdoptFactory(theirs)
	check.Equal(t, f, theirs, "the factory")
	maps := f.Core().V1().ConfigMaps()
	lister := maps.Lister()
	inf, err := informerOf(maps.Informer())
	check.NoError(t, err)
	check.Equal(t, inf.defaultResync, time.Minute, "the resync period of config maps")
	pods, err := informerOf(f.Core().V1().Pods().Informer())
	check.NoError(t, err)
	check.Equal(t, pods.defaultResync, time.Hour, "the resync period of pods")
	generic, err := f.ForResource(configMaps)
	check.NoError(t, err)
	check.Equal(t, must(informerOf(generic.Informer())), inf, "the informer of ForResource")

	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx.Done())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	for of, synced := range f.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("%s has not synced", of)
		}
	}
	all, err := lister.List(labels.Everything())
	if err != nil || len(all) != 1 || all[0].Name != "a" || all[0].Data != nil {
		t.Errorf("%v, %v", all, err)
	}
	if _, ok := inf.GetIndexer().GetIndexers()[cache.NamespaceIndex]; !ok || inf.stats.BodyBytes.Load() == 0 {
		t.Errorf("indexers %v, captured %d bytes", inf.GetIndexer().GetIndexers(), inf.stats.BodyBytes.Load())
	}
	check.Equal(t, paths.get(), "/api/v1/namespaces/one/configmaps", "the requested paths")
}

// TestAdoptedFactoryAfterStart checks informers that the program uses for the first time after
// Start. The program may have requested them before, or may call Start again.
func TestAdoptedFactoryAfterStart(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 3})
	fill(t, server.Config(), configMap("one", "a", nil))
	f := AdoptFactory(informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(capturing(server.Config())), 0))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	kept := f.Core().V1().Pods().Informer()
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	check.Equal(t, kept.HasSynced(), true, "an unused informer has synced")

	pods, err := f.Core().V1().Pods().Lister().List(labels.Everything())
	check.NoError(t, err)
	check.Equal(t, len(pods), 3, "pods")
	check.Equal(t, len(kept.GetStore().ListKeys()), 3, "pods of the informer that was requested before Start")

	maps := f.Core().V1().ConfigMaps().Informer()
	check.NoError(t, maps.SetTransform(withoutData)) // does not start the informer
	check.Equal(t, maps.HasSynced(), false, "an informer that is not started has synced")
	check.NoError(t, maps.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
	calls := observe(t, maps)
	f.Start(ctx.Done())
	for of, synced := range f.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Errorf("%s has not synced", of)
		}
	}
	check.Equal(t, strings.Join(maps.GetStore().ListKeys(), " "), "one/a", "config maps")
	check.Equal(t, maps.GetStore().List()[0].(*corev1.ConfigMap).Data == nil, true, "transformed")
	calls.waitCount(t, 1)
}

// TestAdoptedFactoryOfAFailingServer checks that Lister does not block if a list fails.
func TestAdoptedFactoryOfAFailingServer(t *testing.T) {
	cfg := &rest.Config{Host: "http://server", Transport: roundTripperFunc(func(*http.Request) (*http.Response, error) {
		return nil, syscall.ECONNREFUSED
	})}
	f := AdoptFactory(informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0))
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	inf := f.Core().V1().Pods().Informer()
	check.Equal(t, len(inf.GetStore().ListKeys()), 0, "pods")
	check.ErrorIs(t, Err(inf), syscall.ECONNREFUSED)
	cancel()
	f.Shutdown()
	check.Equal(t, inf.IsStopped(), true, "stopped")
	check.Equal(t, len(f.Core().V1().Nodes().Informer().GetStore().ListKeys()), 0, "nodes after the end")
}

// TestAdoptFactoryLeavesAlone checks that AdoptFactory does not replace informers that the program
// has requested before, and that it returns other values unchanged.
func TestAdoptFactoryLeavesAlone(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	f := informers.NewSharedInformerFactory(client, 0)
	before := f.Core().V1().Pods().Informer()
	own := f.InformerFor(&corev1.Secret{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return Adopt(coreinformers.NewSecretInformer(c, "one", resync, nil))
	})
	AdoptFactory(AdoptFactory(f))
	check.ErrorIs(t, Err(before), ErrForeignInformer)
	check.ErrorIs(t, Err(f.Core().V1().Pods().Informer()), ErrForeignInformer)
	check.Equal(t, must(informerOf(f.Core().V1().Secrets().Informer())), own.(*informer), "the informer of InformerFor")
	check.NoError(t, Err(f.Core().V1().Nodes().Informer()))
	check.Equal(t, AdoptFactory(7), 7, "a number")
	check.Equal(t, AdoptFactory[any](nil), nil, "nil")
}
