package controllerruntime_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
)

// deadline bounds every wait. It is generous, because nothing is timed here.
const deadline = 2 * time.Minute

// rig is a way to build a cache. Every story runs with each: our informers must do what
// controller-runtime's own do.
type rig struct {
	name     string
	newCache cache.NewCacheFunc
	ours     bool
}

var rigs = []rig{
	{"controller-runtime", cache.New, false},
	{"weir", controllerruntime.NewCache(), true},
	{"NewInformer", withNewInformer, true},
	{"NewInformer with a wrapped config", wrapped, true},
	{"a wrapped config", wrappedTwice, true},
	{"pinned", controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{PinDecoded: true})), true},
	{"private", controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{PrivateCopies: true})), true},
	{"detecting", controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{DetectMutation: true})), true},
}

// withNewInformer uses NewInformer without Wrap, so nothing is captured.
func withNewInformer(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	o.NewInformer = controllerruntime.NewInformer()
	return cache.New(cfg, o)
}

// wrapped does what NewCache does, by NewInformer and Wrap.
func wrapped(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	cfg = rest.CopyConfig(cfg)
	clientgo.Wrap(cfg)
	o.NewInformer = controllerruntime.NewInformer()
	return cache.New(cfg, o)
}

// wrappedTwice uses NewCache with a config that was wrapped before.
func wrappedTwice(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	cfg = rest.CopyConfig(cfg)
	clientgo.Wrap(cfg)
	return controllerruntime.NewCache()(cfg, o)
}

// each runs a story with every rig.
func each(t *testing.T, story func(t *testing.T, s *stage)) {
	for _, r := range rigs {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel() // most of it is controller-runtime's polling
			story(t, newStage(t, r))
		})
	}
}

// stage is a server and what one story does with it.
type stage struct {
	t      *testing.T
	ctx    context.Context
	rig    rig
	server *apiserver.Server
	faults *apiserver.Faults
	cfg    *rest.Config
	scheme *runtime.Scheme
	client client.Client // reads and writes directly
}

func newStage(t *testing.T, r rig) *stage {
	t.Helper()
	s := &stage{t: t, rig: r, faults: &apiserver.Faults{}, scheme: runtime.NewScheme()}
	var err error
	s.server, err = apiserver.New(apiserver.Options{Faults: s.faults, Resources: []apiserver.Resource{widgets}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.server.Close() })
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	s.ctx, s.cfg = ctx, s.server.Config()
	if err := clientgoscheme.AddToScheme(s.scheme); err != nil {
		t.Fatal(err)
	}
	addWidgets(s.scheme)
	http, err := rest.HTTPClientFor(s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(http.Transport) })
	s.client, err = client.New(s.cfg, client.Options{HTTPClient: http, Scheme: s.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cache builds a cache with the stage's rig and does not start it.
func (s *stage) cache(o cache.Options) cache.Cache {
	s.t.Helper()
	o.Scheme = s.scheme
	c, err := s.rig.newCache(s.cfg, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// start runs a cache until the story ends.
func (s *stage) start(c cache.Cache) cache.Cache {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Start(ctx); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if !c.WaitForCacheSync(s.ctx) {
		s.t.Fatal("the cache did not sync")
	}
	return c
}

// create creates deep copies of objects, so that the caller's do not change.
func (s *stage) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		if err := s.client.Create(s.ctx, o.DeepCopyObject().(client.Object)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// informer returns the cache's informer for an object.
func (s *stage) informer(c cache.Cache, o client.Object) cache.Informer {
	s.t.Helper()
	inf, err := c.GetInformer(s.ctx, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return inf
}

// heard records a handler's calls, for others to wait for.
type heard struct {
	t       *testing.T
	ctx     context.Context
	changed chan struct{} // capacity 1

	mu      sync.Mutex
	entries []string
	seen    int // how many of them waitFor has passed
	objects map[string]client.Object
}

// follow adds a handler to an informer and waits until the handler has synced.
func (s *stage) follow(inf cache.Informer) *heard {
	s.t.Helper()
	l := &heard{t: s.t, ctx: s.ctx, changed: make(chan struct{}, 1), objects: map[string]client.Object{}}
	reg, err := inf.AddEventHandler(l)
	if err != nil {
		s.t.Fatal(err)
	}
	if !toolscache.WaitFor(s.ctx, "", reg.HasSyncedChecker()) {
		s.t.Fatal("the handler did not sync")
	}
	return l
}

func (l *heard) OnAdd(obj any, initial bool) { l.note(fmt.Sprintf("add initial=%v", initial), obj) }
func (l *heard) OnUpdate(_, obj any)         { l.note("update", obj) }
func (l *heard) OnDelete(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	l.note("delete", obj)
}

func (l *heard) note(what string, obj any) {
	o, ok := obj.(client.Object)
	if !ok {
		l.t.Errorf("%s of %T", what, obj)
		return
	}
	l.mu.Lock()
	entry := what + " " + client.ObjectKeyFromObject(o).String()
	l.entries = append(l.entries, entry)
	l.objects[entry] = o
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// waitFor waits for a call after the one that was waited for last, and returns its object.
func (l *heard) waitFor(entry string) client.Object {
	l.t.Helper()
	for {
		l.mu.Lock()
		for i := l.seen; i < len(l.entries); i++ {
			if l.entries[i] == entry {
				l.seen = i + 1
				o := l.objects[entry]
				l.mu.Unlock()
				return o
			}
		}
		entries := fmt.Sprint(l.entries)
		l.mu.Unlock()
		select {
		case <-l.changed:
		case <-l.ctx.Done():
			l.t.Fatalf("never told %q, but %s", entry, entries)
		}
	}
}

func pod(namespace, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func label(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func node(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = name }
}

// names returns the keys of a list, in order.
func names[T client.Object](items []T) []string {
	out := make([]string, 0, len(items))
	for _, o := range items {
		out = append(out, client.ObjectKeyFromObject(o).String())
	}
	return out
}
