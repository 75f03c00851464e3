//go:build !weir_safe

package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	core "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/testing/check"
)

// resetOff resets what isOff has recorded in the process, now and when the test ends.
func resetOff(t *testing.T) {
	reset := func() {
		logged.Clear()
		off.Store(false)
		unadopted.informers.Clear()
		unadopted.factory.Store(nil)
	}
	reset()
	t.Cleanup(reset)
}

// allPodInformers contains each way to get an informer of pods from this package.
var allPodInformers = map[string]func(cfg *rest.Config, opts Options) cache.SharedIndexInformer{
	"NewSharedIndexInformerWithOptions": func(cfg *rest.Config, opts Options) cache.SharedIndexInformer {
		return NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, 0, nil, opts)
	},
	"Adopt": func(cfg *rest.Config, opts Options) cache.SharedIndexInformer {
		return AdoptWithOptions(core.NewPodInformer(kubernetes.NewForConfigOrDie(cfg), "", 0, cache.Indexers{}), opts)
	},
	"factory": func(cfg *rest.Config, opts Options) cache.SharedIndexInformer {
		f := NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), 0, WithOptions(opts))
		return f.Core().V1().Pods().Informer()
	},
	"adopted factory": func(cfg *rest.Config, opts Options) cache.SharedIndexInformer {
		f := AdoptFactory(informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0), WithOptions(opts))
		return f.Core().V1().Pods().Informer()
	},
	"dynamic factory": func(cfg *rest.Config, opts Options) cache.SharedIndexInformer {
		f := NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0, WithOptions(opts))
		return f.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	},
	"metadata factory": func(cfg *rest.Config, opts Options) cache.SharedIndexInformer {
		f := NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0, WithOptions(opts))
		return f.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	},
}

// isOriginal reports whether an informer is client-go's.
func isOriginal(inf cache.SharedIndexInformer) bool {
	inf = servingOf(inf)
	_, ours := inf.GetStore().(*indexer)
	return !ours && informerStruct(inf).IsValid()
}

// servingOf returns the informer that serves the program, if inf is of an adopted factory, or inf.
func servingOf(inf cache.SharedIndexInformer) cache.SharedIndexInformer {
	if o, ok := ownerOf(inf).(*onRequest); ok {
		return o.request(true)
	}
	return inf
}

// TestOff checks that the environment variable and the option make each constructor return
// client-go's informer, which works like any other, and that a log line states this once. Err and
// WaitForSync must accept the informer.
func TestOff(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 5})
	for _, env := range []bool{true, false} {
		for name, make := range allPodInformers {
			t.Run(fmt.Sprintf("%s, environment %v", name, env), func(t *testing.T) {
				resetOff(t)
				if env {
					t.Setenv("WEIR_CLIENTGO", "off")
				}
				log := captureLog(t)
				inf := make(capturing(server.Config()), Options{Off: !env})
				_ = make(server.Config(), Options{Off: !env})
				if !isOriginal(inf) {
					t.Fatalf("the informer is a %T", inf)
				}
				check.NoError(t, Err(inf))
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := WaitForSync(ctx, inf); !errors.Is(err, engine.ErrNotSynced) || !errors.Is(err, context.Canceled) {
					t.Errorf("before the start: %v", err)
				}
				run(t, inf)
				check.NoError(t, WaitForSync(t.Context(), inf))
				check.Equal(t, len(inf.GetStore().List()), 5, "objects")
				check.Equal(t, len(log.containing("is off: informers are client-go's")), 1, "log lines")
			})
		}
	}
}

// TestOffReflector checks that a Reflector is then client-go's: the store receives the objects, and
// no response is captured.
func TestOffReflector(t *testing.T) {
	resetOff(t)
	t.Setenv("WEIR_CLIENTGO", "off")
	server := serve(t, apiserver.Options{Pods: 5})
	indexer, r := NewNamespaceKeyedIndexerAndReflector(podsOf(capturing(server.Config())), &corev1.Pod{}, 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.RunWithContext(ctx) }()
	eventually(t, func() bool { return len(indexer.ListKeys()) == 5 && r.LastSyncResourceVersion() != "" })
	check.Equal(t, r.stats.Lists.Load(), 0, "lists of this package")
	cancel()
	<-done
}

// TestOffController checks that New and NewInformer then return client-go's Controllers.
func TestOffController(t *testing.T) {
	resetOff(t)
	t.Setenv("WEIR_CLIENTGO", "off")
	server := serve(t, apiserver.Options{Pods: 5})
	var added, processed atomic.Int64
	store, informer := NewInformer(podsOf(server.Config()), &corev1.Pod{}, 0, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added.Add(1) }})
	queue := New(&cache.Config{ListerWatcher: podsOf(server.Config()), ObjectType: &corev1.Pod{},
		Process: func(any, bool) error { processed.Add(1); return nil }})
	for _, c := range []cache.Controller{informer, queue} {
		check.Equal(t, fmt.Sprintf("%T", c), "*cache.controller", "type")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.RunWithContext(ctx) }()
		defer func() { cancel(); <-done }()
	}
	eventually(t, func() bool { return added.Load() == 5 && processed.Load() == 5 && len(store.List()) == 5 })
}

// TestOffWaits checks that WaitForSync then waits for an informer for which Err reports an error.
func TestOffWaits(t *testing.T) {
	resetOff(t)
	inf := AdoptWithOptions(foreign{cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)}, Options{Off: true, Shard: weir.Shard{Count: 2}})
	check.ErrorIs(t, Err(inf), ErrForeignInformer)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	check.ErrorIs(t, WaitForSync(over, inf), engine.ErrNotSynced)
	check.ErrorIs(t, WaitForSync(t.Context(), nil), ErrForeignInformer)
}

// TestOffWithoutListerWatcher checks that Adopt accepts an informer that never runs, because it has
// no ListerWatcher.
func TestOffWithoutListerWatcher(t *testing.T) {
	resetOff(t)
	for _, shard := range []weir.Shard{{}, {Count: 2}} {
		inf := cache.NewSharedIndexInformer(nil, &corev1.Pod{}, 0, nil)
		check.Equal(t, AdoptWithOptions(inf, Options{Off: true, Shard: shard}), inf)
	}
}

// TestOffNot checks that neither another value of the variable nor another informer's option turns
// this package off.
func TestOffNot(t *testing.T) {
	resetOff(t)
	t.Setenv("WEIR_CLIENTGO", "on")
	for name, make := range allPodInformers {
		_ = make(&rest.Config{}, Options{Off: true})
		if inf := make(&rest.Config{}, Options{}); isOriginal(inf) {
			t.Errorf("%s returns %T", name, inf)
		}
	}
}

// TestOffWrap checks that Wrap does nothing if the environment variable is off.
func TestOffWrap(t *testing.T) {
	t.Setenv("WEIR_CLIENTGO", "OFF")
	cfg := &rest.Config{}
	if Wrap(cfg); cfg.WrapTransport != nil {
		t.Error("Wrap has wrapped the transport")
	}
}

// TestOffIgnores checks that one log line names each option that has no effect, even if several
// informers have it.
func TestOffIgnores(t *testing.T) {
	resetOff(t)
	log := captureLog(t)
	for range 2 {
		opts := Options{Off: true, PinDecoded: true, PrivateCopies: true, LogBytes: 1, NoCapture: true}
		_ = NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, nil, opts)
	}
	check.Equal(t, len(log.containing("ignores an option")), 2, "log lines")
	check.Equal(t, len(log.containing(`"PrivateCopies"`)), 1, "lines with PrivateCopies")
	check.Equal(t, len(log.containing(`"LogBytes"`)), 1, "lines with LogBytes")
}

// TestOffShards checks that client-go's informers of all shards together store each object once,
// from lists and watches, although the server sends all objects to each.
func TestOffShards(t *testing.T) {
	for name, make := range allPodInformers {
		t.Run(name, func(t *testing.T) {
			resetOff(t)
			server := serve(t, apiserver.Options{Pods: 50})
			const count = 2
			var infs [count]cache.SharedIndexInformer
			for i := range infs {
				infs[i] = make(server.Config(), Options{Off: true, Shard: weir.Shard{Index: i, Count: count}})
				if !isOriginal(infs[i]) {
					t.Fatalf("the informer is a %T", infs[i])
				}
				run(t, infs[i])
			}
			check.NoError(t, WaitForSync(t.Context(), infs[:]...))
			pods := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
			for n := range 20 {
				_, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n)},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
				check.NoError(t, err)
				if n%2 == 0 {
					check.NoError(t, pods.Delete(t.Context(), fmt.Sprint("p", n), metav1.DeleteOptions{}))
				}
			}
			eventually(t, func() bool { return len(infs[0].GetStore().ListKeys())+len(infs[1].GetStore().ListKeys()) == 60 })
			for i := range infs {
				if n := len(infs[i].GetStore().ListKeys()); n < 10 || n > 50 {
					t.Errorf("shard %d has %d of 60 objects", i, n)
				}
				for _, key := range infs[i].GetStore().ListKeys() {
					if _, twice, _ := infs[1-i].GetStore().GetByKey(key); twice {
						t.Errorf("%s is in two shards", key)
					}
				}
			}
		})
	}
}

// TestOffShardStop checks that the goroutine of a filtered watch ends after Stop even if no caller
// receives the event that the goroutine sends.
func TestOffShardStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource(t)
		lw := filterShard(source, &Options{Shard: weir.Shard{Index: 0, Count: 2}})
		w, err := cache.ToListerWatcherWithContext(lw).WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		check.NoError(t, err)
		for n := range 20 { // about half of them are in the shard
			p := pod(fmt.Sprint(n), "1")
			p.UID = types.UID(p.Name)
			source.Add(p)
		}
		synctest.Wait()
		w.Stop()
	})
}

// TestOffFactory checks that a factory is client-go's own.
func TestOffFactory(t *testing.T) {
	resetOff(t)
	f := NewSharedInformerFactoryWithOptions(nil, 0, WithOptions(Options{Off: true}))
	check.Equal(t, fmt.Sprintf("%T", f), fmt.Sprintf("%T", informers.NewSharedInformerFactory(nil, 0)), "type")
}
