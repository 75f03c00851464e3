//go:build !oldest

package controllerruntime_test

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// gatedInformer is an informer whose handlers block at an object. Handlers of type recorder, which
// tests add, do not block.
type gatedInformer struct {
	toolscache.SharedIndexInformer
	gate *gate
}

func (i gatedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if _, own := handler.(*recorder); !own {
		handler = gatedHandler{handler, i.gate}
	}
	return i.SharedIndexInformer.AddEventHandler(handler)
}

// gate blocks the calls of handlers for the object of the given name.
type gate struct {
	name    string
	once    sync.Once
	held    chan struct{} // closed when a handler is called for the object
	release chan struct{}
}

type gatedHandler struct {
	toolscache.ResourceEventHandler
	gate *gate
}

func (h gatedHandler) OnAdd(obj any, initial bool) {
	if o, ok := obj.(client.Object); ok && o.GetName() == h.gate.name {
		h.gate.once.Do(func() { close(h.gate.held) })
		<-h.gate.release
	}
	h.ResourceEventHandler.OnAdd(obj, initial)
}

// TestReadYourWrites checks controller-runtime's consistent reads, which wait for their own handler
// to receive the program's writes. Such a read must return even if an object was created, deleted
// and created again while this handler was blocked.
func TestReadYourWrites(t *testing.T) {
	for name, newInformer := range map[string]func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer{
		"client-go": toolscache.NewSharedIndexInformer,
		"weir":      controllerruntime.NewInformer(controllerruntime.WithOptions(clientgo.Options{LogBytes: 1})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gate{name: "gate", held: make(chan struct{}), release: make(chan struct{})}
			s := newSetup(t, cacheBuilder{name: name, newCache: func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
				o.NewInformer = func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
					return gatedInformer{newInformer(lw, example, resync, indexers), g}
				}
				return cache.New(cfg, o)
			}})
			c := s.start(s.cache(cache.Options{}))
			consistent, err := client.New(s.cfg, client.Options{
				Scheme: s.scheme,
				Cache:  &client.CacheOptions{Reader: c, EnableReadYourWritesConsistency: new(true)},
			})
			check.NoError(t, err)
			recreated := configMap("again")
			if err := consistent.Create(s.ctx, recreated); err != nil { // adds controller-runtime's handler
				t.Fatal(err)
			}
			calls := s.follow(s.informer(c, configMap("")))
			s.create(configMap("gate"))
			<-g.held
			passing := configMap("passing")
			check.NoError(t, consistent.Create(s.ctx, passing))
			calls.waitFor("add initial=false a/passing")
			for _, o := range []client.Object{passing, recreated} {
				check.NoError(t, consistent.Delete(s.ctx, o))
			}
			calls.waitFor("delete a/again")
			check.NoError(t, consistent.Create(s.ctx, configMap("again")))
			calls.waitFor("add initial=false a/again")
			close(g.release)
			if err := consistent.Get(s.ctx, client.ObjectKeyFromObject(passing), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				t.Errorf("Get of what came and went: %v", err)
			}
			if err := consistent.Get(s.ctx, client.ObjectKeyFromObject(recreated), &corev1.ConfigMap{}); err != nil {
				t.Errorf("Get of what was created again: %v", err)
			}
		})
	}
}

// TestReadYourWritesInRelist reads an object after the program has written it, while the informer
// relists. The first LIST breaks off after an object that was written later, so the informer must
// not pass that object to handlers: the read would then return the object from before the write.
func TestReadYourWritesInRelist(t *testing.T) {
	t.Parallel()
	s := newSetup(t, builders[1])
	s.faults.Add(apiserver.Rule{Match: apiserver.Match("watch", "configmaps"), Times: 1, Cut: new(int64(1))})
	c := s.start(s.cache(cache.Options{}))
	consistent, err := client.New(s.cfg, client.Options{
		Scheme: s.scheme,
		Cache:  &client.CacheOptions{Reader: c, EnableReadYourWritesConsistency: new(true)},
	})
	check.NoError(t, err)
	large := configMap("large")
	large.Data = map[string]string{"random": podsim.Hex(rand.New(rand.NewPCG(1, 2)), 64<<10)}
	s.create(configMap("early"), large)
	calls := s.follow(s.informer(c, configMap("")))
	calls.waitFor("add initial=true a/large")

	var once sync.Once
	written, broken, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.faults.Add(apiserver.Rule{Match: apiserver.Match("watch", "configmaps"), Times: 1, Hold: written, Err: apierrors.NewResourceExpired("")})
	s.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "configmaps"), Times: 1, Cut: new(int64(4 << 10))})
	s.faults.Add(apiserver.Rule{Hold: release, Match: func(r *http.Request) bool {
		if !apiserver.Match("list", "configmaps")(r) {
			return false
		}
		once.Do(func() { close(broken) })
		return true
	}})
	large.Labels["written"] = "yes"
	check.NoError(t, consistent.Update(s.ctx, large)) // its event breaks the watch
	early := configMap("early")
	early.Labels["written"] = "later"
	check.NoError(t, s.client.Update(s.ctx, early))
	close(written)
	<-broken
	time.AfterFunc(200*time.Millisecond, func() { close(release) }) // time for a wrong read
	var read corev1.ConfigMap
	check.NoError(t, consistent.Get(s.ctx, client.ObjectKeyFromObject(large), &read))
	check.Equal(t, read.Labels["written"], "yes", "the program's own write")
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: pod("a", name).ObjectMeta}
}
