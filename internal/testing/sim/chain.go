package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// chain is a native informer whose requests go to one of two watch caches. Each cache (replica)
// receives its data through its own feed.
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
	for i := range 2 {
		r := &replica{kind: c.Kind, client: c.Client(fmt.Sprintf("%s's replica %d", cl.Name, i), 1), spec: spec}
		if spec.Tiers && len(backends) > 0 {
			r.client.Behind(backends[0])
		}
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

// checkedBy makes the replicas report violations to r, as violations of client c. It must be called
// before Run.
func (ch *chain) checkedBy(r *run, c *client) {
	for _, replica := range ch.replicas {
		replica.checks, replica.of = r, c
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

// replica is a watch cache with the feed that fills it. If the feed ends because its server went
// back in time, the replica starts a new cache and a new feed.
type replica struct {
	kind   *api.Kind
	client *api.Client
	spec   ClientSpec
	checks *run             // the run that receives violations
	of     *client          // the client whose requests the replica handles
	server reflector.Server // the reflectors of all feeds share it

	mu    sync.Mutex
	feed  *feed.Feed // the current feed; nil before the first one
	ready bool       // feed has received the first list
}

func (r *replica) run(ctx context.Context) {
	for ctx.Err() == nil {
		r.session(ctx)
	}
}

// session runs one feed until ctx ends or the feed's server goes back in time.
func (r *replica) session(ctx context.Context) {
	encoding := wire.JSON
	resource := watchcache.Resource{GroupVersionResource: r.kind.GroupVersionResource, Kind: r.kind.Kind, Namespaced: true, Custom: !r.kind.Protobuf}
	if r.kind.Protobuf {
		encoding, resource.Type = wire.Protobuf, reflect.TypeFor[corev1.ConfigMap]()
	}
	f, err := feed.New(feed.Config{
		Upstream: config(r.client), Encoding: encoding, LogBytes: r.spec.LogBytes,
		Cache:     watchcache.Config{Resource: resource},
		Reflector: reflector.Config{WatchTimeout: r.spec.Watch, Backoff: reflector.Backoff(r.spec.backoff), Server: &r.server},
		OnListed:  func() { r.setReady(true) },
	})
	if err != nil {
		panic(err)
	}
	defer f.Close()
	r.mu.Lock()
	r.feed = f
	r.mu.Unlock()
	err = f.Run(ctx)
	r.setReady(false)
	if errors.Is(err, feed.ErrWentBack) {
		f.Cache().Expire()
	}
}

func (r *replica) setReady(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = ready
}

// patience is how long a server may lag. If it lags longer, clients may mistake it for a server
// that was restored from a backup, because its consistent responses are the same as those of a
// restored server. patience is shorter than the time for which a reflector examines such a server.
const patience = 5 * time.Second

// lag reports whether one of the replicas has no feed yet, or lacks a change that is older than
// patience.
func (ch *chain) lag(h *api.History, now time.Duration) bool {
	e := h.Era()
	return slices.ContainsFunc(ch.replicas, func(r *replica) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.feed == nil {
			return true
		}
		at, ok := e.Parse(r.feed.Store().ResourceVersion())
		return !ok || at < e.RevisionAt(now-patience)
	})
}

// prove waits for a proof that the replica is current, as the proxy does before it serves a
// consistent read. It then checks that the replica has every write from before the wait. If it gets
// no proof, for example because the servers send no bookmarks, prove checks nothing. The replica
// serves the read anyway, as with proxy.Options.TrustCache.
func (r *replica) prove(ctx context.Context, f *feed.Feed) {
	var era *api.Era
	var rev int64
	r.checks.cluster.Do(func(h *api.History) { era, rev = h.Era(), h.Era().Head() })
	if !f.ProveCurrent(ctx) || r.checks.world.tricksProofs() {
		return
	}
	objects := map[api.Key]api.Representation{}
	for o := range f.Store().Snapshot().All() {
		raw, err := o.AppendRaw(nil)
		if err != nil {
			r.checks.violate("proven", r.of, "%v", err)
			return
		}
		if rep, ok := r.checks.cluster.RepresentationOf(raw); ok {
			objects[rep.Version.Key] = rep
		}
	}
	r.checks.cluster.Do(func(h *api.History) { r.checks.hasReached("proven", r.of, Scope{}, era, rev, objects) })
}

// forward sends a request for the newest resourceVersion to the replica's server, and copies the
// response. That costs the server as little as a proof does.
func (r *replica) forward(w http.ResponseWriter, hr *http.Request) {
	resp, err := r.client.RoundTrip(hr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// tricksProofs reports whether a replica may get a proof although it is not current. That is
// possible if a server serves consistent reads from a cache that lags. It is also possible after a
// restore, because a watch whose connection stalls does not show the restore.
func (w *World) tricksProofs() bool {
	return slices.ContainsFunc(w.Servers, func(s api.Spec) bool { return s.Stale }) ||
		slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Restore || s.Op == Replace })
}

// ServeHTTP implements http.Handler. It responds like the handler of a program with a watch cache:
// with 429 until the cache is ready, and then from the cache.
func (r *replica) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	if hr.URL.Path == "/version" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.0"}`))
		return
	}
	r.checks.observe(r.of)
	r.mu.Lock()
	f, ready := r.feed, r.ready
	r.mu.Unlock()
	if !ready {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the cache is not ready", http.StatusTooManyRequests)
		return
	}
	if q := hr.URL.Query(); q.Get("resourceVersion") == "" && q.Get("continue") == "" {
		if q.Get("limit") == "1" {
			r.forward(w, hr)
			return
		}
		r.prove(hr.Context(), f)
	}
	rq, err := request.Parse(hr)
	if err != nil {
		watchcache.WriteError(w, hr, err)
		return
	}
	if hr.URL.Query().Get("watch") != "" {
		served := &servedWatch{ResponseWriter: w, run: r.checks, client: r.of}
		defer served.check(hr)
		w = served
	}
	f.Cache().Serve(w, hr, rq)
}
