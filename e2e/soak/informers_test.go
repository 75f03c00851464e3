package soak

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
)

// pairs are the namespaces and the selectors of the informers that have two of each.
var (
	pairNamespaces = namespaces[:2]
	pairSelectors  = []string{"red=yes", "blue=yes"}
)

const protobuf = "application/vnd.kubernetes.protobuf"

// startInformers starts each kind of informer, by one way.
func (w *world) startInformers(ctx context.Context, way string) (out []*subject) {
	out = append(out,
		startNative[*corev1.ConfigMap](w, ctx, way, "configmaps", weir.Options{}),
		startNative[*corev1.ConfigMap](w, ctx, way, pairs, weir.Options{
			Namespaces: pairNamespaces, Selectors: []weir.Selector{{Label: pairSelectors[0]}, {Label: pairSelectors[1]}},
		}),
		startNative[*unstructured.Unstructured](w, ctx, way, "widgets", weir.Options{Resource: widgets}),
	)
	s, cfg := w.newSubject("drop-in", way, "configmaps")
	typed, err := clientgo.NewSharedInformerFactory(cfg, 0)
	w.fatal(err)
	s.start(w, typed.Core().V1().ConfigMaps().Informer(), func() func() {
		ctx, cancel := context.WithCancel(ctx)
		typed.StartWithContext(ctx)
		return func() { cancel(); typed.Shutdown() }
	})
	out = append(out, s)
	s, cfg = w.newSubject("drop-in", way, "widgets")
	custom, err := clientgo.NewDynamicSharedInformerFactory(cfg, 0)
	w.fatal(err)
	s.start(w, custom.ForResource(widgets).Informer(), func() func() {
		ctx, cancel := context.WithCancel(ctx)
		custom.Start(ctx.Done())
		return func() { cancel(); custom.Shutdown() }
	})
	return append(out, s)
}

// startControls starts client-go's informers, by one way.
func (w *world) startControls(ctx context.Context, way string) (out []*subject) {
	s, cfg := w.newSubject(clientGo, way, "configmaps")
	factory := informers.NewSharedInformerFactory(w.client(cfg), 0)
	s.start(w, factory.Core().V1().ConfigMaps().Informer(), startFactory(ctx, factory))
	out = append(out, s)

	s, cfg = w.newSubject(clientGo, way, pairs)
	var parts []cache.SharedIndexInformer
	var stops []func()
	for _, ns := range pairNamespaces {
		for _, selector := range pairSelectors {
			factory := informers.NewSharedInformerFactoryWithOptions(w.client(cfg), 0, informers.WithNamespace(ns),
				informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
			inf := factory.Core().V1().ConfigMaps().Informer()
			w.handle(inf, s.newHistory(w, " "+ns+" "+selector))
			parts = append(parts, inf)
			stops = append(stops, startFactory(ctx, factory)())
		}
	}
	s.objects = func() map[string]version { return heldBy(parts...) }
	s.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	out = append(out, s)

	s, cfg = w.newSubject(clientGo, way, "widgets")
	custom := dynamicinformer.NewDynamicSharedInformerFactory(w.dynamic(cfg), 0)
	s.start(w, custom.ForResource(widgets).Informer(), func() func() {
		ctx, cancel := context.WithCancel(ctx)
		custom.Start(ctx.Done())
		return func() { cancel(); custom.Shutdown() }
	})
	out = append(out, s)
	for _, s := range out {
		s.control = true
	}
	return out
}

const (
	clientGo = "client-go"
	pairs    = "configmaps 2x2"
)

func startFactory(ctx context.Context, factory informers.SharedInformerFactory) func() (stop func()) {
	return func() func() {
		ctx, cancel := context.WithCancel(ctx)
		factory.StartWithContext(ctx)
		return func() { cancel(); factory.Shutdown() }
	}
}

// client is a typed client that speaks protobuf.
func (w *world) client(cfg *rest.Config) kubernetes.Interface {
	w.t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = protobuf
	client, err := kubernetes.NewForConfig(cfg)
	w.fatal(err)
	return client
}

func (w *world) fatal(err error) {
	w.t.Helper()
	check.NoError(w.t, err)
}

// handle adds a checked handler to an informer of client-go's interface.
func (w *world) handle(inf cache.SharedIndexInformer, h *history) {
	w.t.Helper()
	_, err := inf.AddEventHandler(h.handler())
	w.fatal(err)
}

// start starts a subject that is one informer of client-go's interface.
func (s *subject) start(w *world, inf cache.SharedIndexInformer, start func() (stop func())) {
	w.t.Helper()
	w.handle(inf, s.newHistory(w, ""))
	s.objects = func() map[string]version { return heldBy(inf) }
	s.content = func(key string) (any, error) {
		o, _, err := inf.GetStore().GetByKey(key)
		return o, err
	}
	if s.name != clientGo {
		s.trouble = func() string { return fmt.Sprint(clientgo.Err(inf)) }
	}
	s.stop = start()
}

// heldBy returns what informers hold, all together.
func heldBy(informers ...cache.SharedIndexInformer) map[string]version {
	out := map[string]version{}
	for _, inf := range informers {
		for _, o := range inf.GetStore().List() {
			key := keyOf(o)
			if v := versionOf(metaOf(o)); compared(key) && v.rv >= out[key].rv {
				out[key] = v
			}
		}
	}
	return out
}

// startNative starts a typed informer.
func startNative[T weir.Object](w *world, ctx context.Context, way, of string, opts weir.Options) *subject {
	w.t.Helper()
	s, cfg := w.newSubject("native", way, of)
	inf, err := weir.NewInformer[T](cfg, opts)
	w.fatal(err)
	h := s.newHistory(w, "")
	_, err = inf.Handle(func(_ context.Context, e weir.Event[T]) {
		switch e.Type {
		case weir.Added:
			h.added(e.Key(), itemVersion(e.Item()))
		case weir.Updated:
			h.updated(e.Key(), itemVersion(e.OldItem()), itemVersion(e.Item()))
		case weir.Deleted:
			h.deleted(e.Key(), itemVersion(e.Item()))
		}
	}, weir.HandlerOptions[T]{})
	w.fatal(err)
	s.objects = func() map[string]version {
		out := map[string]version{}
		for i := range inf.Snapshot().Items() {
			if compared(i.Key()) {
				out[i.Key()] = itemVersion(i)
			}
		}
		return out
	}
	s.content = func(key string) (any, error) { return inf.Get(key) }
	s.trouble = func() string { return fmt.Sprintf("%v %v", inf.Err(), inf.Status()) }
	s.stop = running(ctx, func(ctx context.Context) {
		if err := inf.Run(ctx); err != nil {
			w.t.Errorf("%v: %v", s, err)
		}
	})
	return s
}

func itemVersion[T weir.Object](i weir.Item[T]) version {
	write, _ := i.Label(writeLabel)
	return version{uid: i.UID(), rv: parseVersion(i.ResourceVersion()), write: write}
}
