//go:build !weir_safe

package controllerruntime_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// foreign is a wrapper of client-go's informer, like one that a program may define. It counts the
// handlers that the cache adds.
type foreign struct {
	toolscache.SharedIndexInformer
	handlers *atomic.Int32
}

func (f foreign) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	f.handlers.Add(1)
	return f.SharedIndexInformer.AddEventHandler(handler)
}

// TestNewInformerOfTheProgram uses caches whose NewInformer returns an informer of client-go, an
// informer of Weir, or an informer that Weir cannot replace: a wrapper, or one with a handler. A
// cache must replace client-go's informer by Weir's, and use any other informer as it is.
func TestNewInformerOfTheProgram(t *testing.T) {
	var handlers atomic.Int32
	handled := make(chan any, 1)
	for name, test := range map[string]struct {
		make    func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
		foreign bool
	}{
		"client-go's": {make: toolscache.NewSharedIndexInformer},
		"ours":        {make: controllerruntime.NewInformer()},
		"with options": {make: func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformerWithOptions(lw, example, toolscache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
		}},
		"a wrapper": {func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return foreign{toolscache.NewSharedIndexInformer(lw, example, resync, indexers), &handlers}
		}, true},
		"with a handler": {func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			inf := toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
			_, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { handled <- obj }})
			check.NoError(t, err)
			return inf
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, cacheBuilder{newCache: controllerruntime.NewCache()})
			s.create(pod("a", "1"))
			c := s.start(s.cache(cache.Options{
				NewInformer: test.make,
				DefaultTransform: func(obj any) (any, error) {
					obj.(*corev1.Pod).Labels["seen"] = "yes"
					return obj, nil
				},
			}))
			inf, err := c.GetInformer(s.ctx, &corev1.Pod{})
			check.NoError(t, err)
			if err := clientgo.Err(inf.(toolscache.SharedIndexInformer)); errors.Is(err, clientgo.ErrForeignInformer) != test.foreign {
				t.Errorf("the informer is foreign: %v", err)
			}
			added := make(chan any, 1)
			_, err = inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added <- obj }})
			check.NoError(t, err)
			check.Equal(t, (<-added).(*corev1.Pod).Name, "1", "the object that a handler receives")
			var p corev1.Pod
			if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &p); err != nil || p.Labels["seen"] != "yes" {
				t.Errorf("%v, %v", p.Labels, err)
			}
			var pods corev1.PodList
			check.NoError(t, c.List(s.ctx, &pods, client.InNamespace("a")))
			check.Equal(t, len(pods.Items), 1, "pods")
		})
	}
	check.Equal(t, handlers.Load(), 1, "calls of the wrapper's AddEventHandler")
	check.Equal(t, (<-handled).(*corev1.Pod).Name, "1", "the object that the handler of NewInformer receives")
}

// TestNewCacheLeavesAlone checks that NewCache changes neither the config nor the client that it
// receives. If NewInformer is set in the options, NewCache must call it.
func TestNewCacheLeavesAlone(t *testing.T) {
	s := newSetup(t, builders[0])
	s.create(pod("a", "1"))
	cfg := rest.CopyConfig(s.cfg)
	given := &http.Client{}
	asked := 0
	o := cache.Options{HTTPClient: given, Scheme: s.scheme}
	o.NewInformer = func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		asked++
		return toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
	}
	c, err := controllerruntime.NewCache()(cfg, o)
	check.NoError(t, err)
	s.start(c)
	if got := s.listed(c); len(got) != 1 || asked != 1 {
		t.Errorf("%v, asked %d times", got, asked)
	}
	if given.Transport != nil || cfg.WrapTransport != nil {
		t.Error("what was given has been changed")
	}
}
