package sim

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/sim/api"
	"github.com/weirproject/weir/internal/sim/etcd"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

// chain is a native informer that gets everything from watch caches which are fed by reflectors of
// their own.
type chain struct {
	informer
	replicas []*replica
}

func newChain(c *api.Cluster, cl *api.Client, spec ClientSpec) (informer, error) {
	inner, err := newNative(c, cl, spec)
	if err != nil {
		return nil, err
	}
	ch := &chain{informer: inner}
	var backends []api.Backend
	for range 2 {
		r := &replica{kind: c.Kind, client: c.Client(cl.Name+"'s replica", 1), spec: spec}
		ch.replicas = append(ch.replicas, r)
		backends = append(backends, r)
	}
	cl.Behind(backends...)
	return ch, nil
}

func (ch *chain) Run(ctx context.Context) {
	upstream, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	for _, r := range ch.replicas {
		wg.Go(func() { r.run(upstream) })
	}
	ch.informer.Run(ctx)
	cancel()
	wg.Wait()
}

// whenAsked sets the function that a replica calls whenever something is read from it. It must be
// called before Run.
func (ch *chain) whenAsked(f func()) {
	for _, r := range ch.replicas {
		r.asked = f
	}
}

// upstreams returns the clients of the replicas.
func (ch *chain) upstreams() []*api.Client {
	var all []*api.Client
	for _, r := range ch.replicas {
		all = append(all, r.client)
	}
	return all
}

// replica is a watch cache with a reflector. It begins anew, with an empty store, when its server
// went back.
type replica struct {
	kind   *api.Kind
	client *api.Client
	spec   ClientSpec
	asked  func() // called when somebody reads from it

	mu    sync.Mutex
	cache *watchcache.Cache // nil while it is not ready
	store *store.Store      // of the session
}

func (r *replica) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.session(ctx)
	}
}

// session runs one store until the context ends or the server goes back.
func (r *replica) session(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	encoding := wire.JSON
	if r.kind.Protobuf {
		encoding = wire.Protobuf
	}
	sink := &storeSink{endSession: cancel}
	e := engine.New(engine.Config{
		Sink:      func(w *store.Writer) reflector.Sink { sink.Writer = w; return sink },
		Store:     store.Config{Encoding: encoding, KeepLog: true, LogBytes: r.spec.LogBytes},
		Reflector: reflector.Config{WatchTimeout: r.spec.Watch, Backoff: reflector.Backoff(r.spec.backoff), Encoding: encoding},
	})
	sink.store = e.Store()
	r.hold(sink.store)
	sink.history = watchcache.NewHistory(0, 0, 0)
	src, err := source.New(config(r.client), source.Resource{GVR: r.kind.GroupVersionResource, Encoding: encoding}, source.Options{})
	if err != nil {
		panic(err)
	}
	e.Reflect(src, store.Scope{}, "")
	cache := r.newCache(sink, encoding)
	sink.onListed = func() { r.set(cache) }
	_ = e.Run(ctx)
	r.set(nil)
	cache.Close()
}

func (r *replica) newCache(sink *storeSink, encoding wire.Encoding) *watchcache.Cache {
	resource := watchcache.Resource{GroupVersionResource: r.kind.GroupVersionResource, Kind: r.kind.Kind, Namespaced: true, Custom: !r.kind.Protobuf}
	if r.kind.Protobuf {
		resource.Type = reflect.TypeFor[corev1.ConfigMap]()
	}
	cache, err := watchcache.New(watchcache.Config{Resource: resource, Store: sink.store, Encoding: encoding, Clock: sink, History: sink.history})
	if err != nil {
		panic(err)
	}
	return cache
}

// hold records the store that a session begins with.
func (r *replica) hold(s *store.Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store = s
}

// patience is how long a server may lag without being taken for one that was restored from a
// backup: both give the same consistent answers. It is less than the time for which a reflector
// examines such a server.
const patience = 5 * time.Second

// lag reports whether one of the replicas lacks something that was there patience ago, or has no
// store yet.
func (ch *chain) lag(h *etcd.History, now time.Duration) bool {
	e := h.Era()
	return slices.ContainsFunc(ch.replicas, func(r *replica) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.store == nil {
			return true
		}
		at, ok := e.Parse(r.store.ResourceVersion())
		return !ok || at < e.RevisionAt(now-patience)
	})
}

func (r *replica) set(c *watchcache.Cache) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache = c
}

// ServeHTTP implements http.Handler: it does what the routes of a program would. It answers 429
// while the cache is not ready.
func (r *replica) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	if hr.URL.Path == "/version" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.0"}`))
		return
	}
	r.asked()
	r.mu.Lock()
	cache := r.cache
	r.mu.Unlock()
	if cache == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the cache is not ready", http.StatusTooManyRequests)
		return
	}
	namespace := ""
	if _, rest, ok := strings.Cut(hr.URL.Path, "/namespaces/"); ok {
		namespace, _, _ = strings.Cut(rest, "/")
	}
	cache.ServeList(w, hr, namespace, "")
}
