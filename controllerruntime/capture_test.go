package controllerruntime_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// spied is a ListerWatcher of controller-runtime's client. After each List, it sends the number of
// objects in the result to items. The number is 0 if the informer captures the response.
type spied struct {
	toolscache.ListerWatcherWithContext
	items chan<- int
}

func (s spied) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s spied) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

func (s spied) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := s.ListerWatcherWithContext.ListWithContext(ctx, options)
	if err == nil {
		s.items <- meta.LenList(list)
	}
	return list, err
}

// TestCaptured checks that each informer sends one LIST, and that controller-runtime's client
// decodes none of the listed objects if the transport is wrapped.
func TestCaptured(t *testing.T) {
	wrapped := func(cfg *rest.Config) *rest.Config {
		cfg = rest.CopyConfig(cfg)
		clientgo.Wrap(cfg)
		return cfg
	}
	for _, tc := range []struct {
		name  string
		build func(cfg *rest.Config, o cache.Options) (cache.Cache, error)
		items int
	}{
		{"NewCache", controllerruntime.NewCache(), 0},
		{"NewCache with a client", func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
			var err error
			if o.HTTPClient, err = rest.HTTPClientFor(cfg); err != nil {
				return nil, err
			}
			return controllerruntime.NewCache()(cfg, o)
		}, 0},
		{"a wrapped config", func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
			return controllerruntime.NewCache()(wrapped(cfg), o)
		}, 0},
		{"NewInformer and a wrapped config", func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
			return cache.New(wrapped(cfg), o)
		}, 0},
		{"NewInformer alone", cache.New, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSetup(t, cacheBuilder{newCache: tc.build})
			s.create(pod("a", "1"), pod("a", "2"), pod("b", "1"))
			lists := make(chan struct{}, 10)
			items := make(chan int, 10)
			s.faults.Add(apiserver.Rule{Match: func(r *http.Request) bool {
				if apiserver.Match("list", "pods")(r) {
					lists <- struct{}{}
				}
				return false
			}})
			newInformer := controllerruntime.NewInformer()
			c := s.start(s.cache(cache.Options{
				NewInformer: func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
					return newInformer(spied{toolscache.ToListerWatcherWithContext(lw), items}, example, resync, indexers)
				},
			}))
			// The informer must capture the response although odd states a wrong apiVersion, core/v1
			// instead of v1: controller-runtime ignores the apiVersion and kind of typed objects.
			odd := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "core/v1", Kind: "Pod"}}
			for _, o := range []client.Object{odd, untyped(podKind), metadataOf(podKind)} {
				s.informer(c, o)
				check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "b", Name: "1"}, o))
				check.Equal(t, <-items, tc.items, "%T: controller-runtime decoded objects", o)
				if <-lists; len(lists) > 0 {
					t.Errorf("%T: %d LISTs", o, 1+len(lists))
				}
			}
		})
	}
}
