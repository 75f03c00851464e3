//go:build !weir_safe

package clientgo

import (
	"context"
	"errors"
	"net/http"
	"reflect"
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
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/registry"
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
	nodes := ownerOf(f.Core().V1().Nodes().Informer()).(*onRequest)
	check.Equal(t, nodes.build().(*informer).defaultResync, time.Hour, "the resync period of nodes")
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
	for _, err := range []error{ // these do not start the informer
		maps.SetTransform(withoutData), maps.SetWatchErrorHandler(func(*cache.Reflector, error) {}), maps.AddIndexers(cache.Indexers{}),
	} {
		check.NoError(t, err)
		check.Equal(t, maps.HasSynced(), true, "an informer that the program has only configured has synced")
	}
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

// TestAdoptFactoryUnused checks that Err does not build an informer that the program has not used,
// also through a wrapper, and that WaitForSync starts one.
func TestAdoptFactoryUnused(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 3})
	f := AdoptFactory(informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(capturing(server.Config())), 0))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	pods := f.Core().V1().Pods().Informer()
	for _, inf := range []cache.SharedIndexInformer{pods, foreign{pods}} {
		check.NoError(t, Err(inf))
		check.Equal(t, inf.GetController().HasSynced(), true, "an unused informer has synced")
	}
	_, built := ownerOf(pods).(*onRequest).current()
	check.Equal(t, built, false, "built")
	check.NoError(t, WaitForSync(ctx, foreign{pods}))
	check.Equal(t, must(informerOf(foreign{pods})).HasSynced(), true, "synced")
	check.Equal(t, len(pods.GetStore().ListKeys()), 3, "pods")
}

// olderFactory is like a factory that an older informer-gen has generated: it has no transform.
type olderFactory struct {
	client    kubernetes.Interface
	lock      sync.Mutex
	informers map[reflect.Type]cache.SharedIndexInformer
}

func (f *olderFactory) Pods() coreinformers.PodInformer { return olderPods{f} }

type olderPods struct{ *olderFactory }

func (p olderPods) Lister() listers.PodLister { return listers.NewPodLister(p.Informer().GetIndexer()) }

func (p olderPods) Informer() cache.SharedIndexInformer {
	p.lock.Lock()
	defer p.lock.Unlock()
	of := reflect.TypeFor[*corev1.Pod]()
	if p.informers[of] == nil {
		p.informers[of] = coreinformers.NewPodInformer(p.client, "", 0, cache.Indexers{})
	}
	return p.informers[of]
}

// TestAdoptFactoryOptions checks that a transform and a shard apply to the informers of adopted
// factories: to Weir's informers, to pairs with a shadow, and to client-go's informers, which
// remain because of Options.Off or an unknown field.
func TestAdoptFactoryOptions(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 60})
	seen := func(obj any) (any, error) {
		obj.(*corev1.Pod).Labels = map[string]string{"seen": "yes"}
		return obj, nil
	}
	for mode, opts := range map[string]Options{"on": {}, "off": {Off: true}, "weir is the shadow": {Shadow: ShadowWeir}, "unknown field": {}} {
		for name, pods := range map[string]func(kubernetes.Interface, ...Option) cache.SharedIndexInformer{
			"client-go's factory": func(client kubernetes.Interface, opts ...Option) cache.SharedIndexInformer {
				return AdoptFactory(informers.NewSharedInformerFactory(client, 0), opts...).Core().V1().Pods().Informer()
			},
			"an older factory": func(client kubernetes.Interface, opts ...Option) cache.SharedIndexInformer {
				return AdoptFactory(&olderFactory{client: client, informers: map[reflect.Type]cache.SharedIndexInformer{}}, opts...).Pods().Informer()
			},
		} {
			t.Run(mode+", "+name, func(t *testing.T) {
				resetOff(t)
				n, client := 0, kubernetes.NewForConfigOrDie(capturing(server.Config()))
				for i := range 2 {
					inf := pods(client, WithOptions(opts), WithTransform(seen), WithShard(weir.Shard{Index: i, Count: 2}))
					if mode == "unknown field" {
						setUnknown(t, inf)
					}
					inf.GetStore() // uses it
					runSynced(t, inf)
					if _, err := informerOf(inf); (err == nil) != (mode == "on" || opts.Shadow != NoShadow) {
						t.Errorf("%v", err)
					}
					held := inf.GetStore().List()
					if n += len(held); len(held) < 10 || len(held) > 50 {
						t.Errorf("shard %d has %d of 60", i, len(held))
					}
					for _, obj := range held {
						check.Equal(t, obj.(*corev1.Pod).Labels["seen"], "yes", "transformed")
					}
				}
				check.Equal(t, n, 60, "the shards have objects")
			})
		}
	}
}

// setUnknown makes the field resyncCheckPeriod of client-go's informer unknown, and sets it.
func setUnknown(t *testing.T, inf cache.SharedIndexInformer) {
	i := slices.Index(knownFields, "resyncCheckPeriod")
	if i >= 0 {
		knownFields[i] = "later"
		t.Cleanup(func() { knownFields[i] = "resyncCheckPeriod" })
	}
	field, _ := private.Field(informerStruct(ownerOf(inf).(*onRequest).upstreamInformer.SharedIndexInformer), "resyncCheckPeriod")
	field.SetInt(1)
}

// TestAdoptFactoryUnknownField checks that an adopted factory builds and counts only the informers
// that the program uses, and that Err names the unknown field.
func TestAdoptFactoryUnknownField(t *testing.T) {
	f := AdoptFactory(informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"}), 0))
	pods, nodes := f.Core().V1().Pods().Informer(), f.Core().V1().Nodes().Informer()
	setUnknown(t, pods)
	setUnknown(t, nodes)
	before := registry.Unadopted()["resyncCheckPeriod"]
	check.NoError(t, Err(pods))
	pods.GetIndexer()
	unknown, ok := errors.AsType[*UnknownFieldError](Err(pods))
	if !ok || unknown.Field != "resyncCheckPeriod" || unknown.Informer != "*v1.Pod" {
		t.Errorf("%v", Err(pods))
	}
	check.Equal(t, registry.Unadopted()["resyncCheckPeriod"], before+1, "counted")
}

// TestAdoptFactoryOff checks that AdoptFactory sets only the factory's transform if package
// clientgo is off and there is no shard.
func TestAdoptFactoryOff(t *testing.T) {
	resetOff(t)
	f := AdoptFactory(informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"}), 0),
		WithOptions(Options{Off: true}), WithTransform(withoutData))
	p, ok := fieldsOf(f.Core().V1().Pods().Informer())
	if !ok || reflect.ValueOf(p.transform).Pointer() != reflect.ValueOf(withoutData).Pointer() {
		t.Errorf("%t, another transform: %t", ok, p.transform != nil)
	}
}

// TestDroppedOptions checks that the log and Err report a shard that cannot apply.
func TestDroppedOptions(t *testing.T) {
	for _, turnedOff := range []bool{false, true} {
		resetOff(t)
		log, sharded := captureLog(t), Options{Off: turnedOff, Shard: weir.Shard{Index: 1, Count: 2}}
		inf := AdoptWithOptions(foreign{cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)}, sharded)
		check.ErrorIs(t, Err(inf), ErrForeignInformer)
		check.Equal(t, len(log.containing("all shards")), 1, "log lines")
		_ = AdoptFactory(struct{}{}, WithOptions(sharded))
		other := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
		check.ErrorIs(t, Err(other), ErrForeignInformer)
		check.Equal(t, len(log.containing("without the transform or shard")), 1, "log lines")
	}
}
