//go:build !weir_safe

package controllerruntime_test

import (
	"errors"
	"net/http"
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

// foreign is a wrapper of client-go's informer, like one that a program may define.
type foreign struct{ toolscache.SharedIndexInformer }

// TestNewInformerOfTheProgram uses caches whose NewInformer returns an informer of client-go, an
// informer of Weir, or a wrapper of client-go's informer. A cache must replace client-go's informer
// by Weir's. It must return an error for the wrapper, which it cannot replace.
func TestNewInformerOfTheProgram(t *testing.T) {
	for name, test := range map[string]struct {
		make   func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer
		refuse bool
	}{
		"client-go's": {make: toolscache.NewSharedIndexInformer},
		"ours":        {make: controllerruntime.NewInformer()},
		"a wrapper": {func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return foreign{toolscache.NewSharedIndexInformer(lw, example, resync, indexers)}
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
			if test.refuse {
				if !errors.Is(err, controllerruntime.ErrNotAdopted) || !errors.Is(err, clientgo.ErrForeignInformer) {
					t.Errorf("GetInformer: %v", err)
				}
				check.ErrorIs(t, c.List(s.ctx, &corev1.PodList{}), controllerruntime.ErrNotAdopted, "List")
				return
			}
			check.NoError(t, err)
			check.NoError(t, clientgo.Err(inf.(toolscache.SharedIndexInformer)))
			var p corev1.Pod
			if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &p); err != nil || p.Labels["seen"] != "yes" {
				t.Errorf("%v, %v", p.Labels, err)
			}
		})
	}
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
