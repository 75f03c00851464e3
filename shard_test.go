package weir_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

type pods = *weir.Informer[*corev1.Pod]

// unsharded returns a config whose requests lack shardSelector. The server then answers like a
// server that ignores this parameter.
func unsharded(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			q := req.URL.Query()
			q.Del("shardSelector")
			req.URL.RawQuery = q.Encode()
			return next.RoundTrip(req)
		})
	})
	return cfg
}

// shards starts an informer for each of count shards. stop stops them.
func shards(t *testing.T, ctx context.Context, cfg *rest.Config, count int, opts weir.Options) (infs []pods, stop func()) {
	t.Helper()
	var stops []func()
	for i := range count {
		opts.Shard = weir.Shard{Index: i, Count: count}
		inf, stop := start[*corev1.Pod](t, ctx, cfg, opts)
		infs, stops = append(infs, inf), append(stops, stop)
	}
	return infs, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// union returns the uid of each object that at least one informer stores, by key. It returns an
// error if two informers store the same object.
func union(infs []pods) (map[string]string, error) {
	out := map[string]string{}
	var err error
	for i, inf := range infs {
		for item := range inf.Snapshot().Items() {
			if _, ok := out[item.Key()]; ok {
				err = fmt.Errorf("shard %d has %s as well", i, item.Key())
			}
			out[item.Key()] = item.UID()
		}
	}
	return out, err
}

// podsOf returns the uid of each of the server's pods, by key.
func podsOf(t *testing.T, ctx context.Context, client corev1client.CoreV1Interface) map[string]string {
	t.Helper()
	list, err := client.Pods("").List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Namespace+"/"+list.Items[i].Name] = string(list.Items[i].UID)
	}
	return out
}

// TestShards checks that the informers of all shards together store each object once. A server that
// supports shard selectors sends each informer only the objects of its shard. If the server does
// not support them, each informer drops the objects of other shards.
func TestShards(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{Pods: 300})
	want := podsOf(t, ctx, client)
	for _, selects := range []bool{true, false} {
		for _, mode := range []weir.Mode{weir.ModeList, weir.ModePages, weir.ModeWatchList} {
			cfg := server.Config()
			if !selects {
				cfg = unsharded(cfg)
			}
			infs, stop := shards(t, ctx, cfg, 3, weir.Options{ListWatch: weir.ListWatch{Mode: mode, PageSize: 50}})
			for i, inf := range infs {
				check.NoError(t, inf.WaitForSync(ctx))
				if s := inf.Status()[0]; (s.OutOfShard == 0) != selects || s.OutOfShard+int64(inf.Len()) != s.Listed || s.Err != nil {
					t.Errorf("%v, shard %d, selected by the server %t: %d held, %d listed, %s", mode, i, selects, inf.Len(), s.Listed, s)
				}
				if n := inf.Len(); n < 60 || n > 140 {
					t.Errorf("%v: shard %d of 3 has %d of 300", mode, i, n)
				}
			}
			if got, err := union(infs); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v: %d of %d objects are held: %v", mode, len(got), len(want), err)
			}
			stop()
		}
	}
}

// handled maps the key of an object to its uid. It contains the objects that a handler of any shard
// has received. When a handler of any shard receives the deletion of an object, the object is
// removed from the map.
type handled struct {
	mu   sync.Mutex
	held map[string]string
}

func handleAll(t *testing.T, infs []pods) *handled {
	t.Helper()
	h := &handled{held: map[string]string{}}
	for _, inf := range infs {
		handle(t, inf, func(_ context.Context, e weir.Event[*corev1.Pod]) {
			h.mu.Lock()
			defer h.mu.Unlock()
			switch uid := e.Item().UID(); {
			case e.Type != weir.Deleted:
				h.held[e.Key()] = uid
			case h.held[e.Key()] == uid:
				delete(h.held, e.Key())
			}
		})
	}
	return h
}

// TestShardsMove changes the number of shards while objects are created, changed and deleted. It
// starts the informers of the new shards while the old informers still run. Before the old
// informers stop, the old informers together must store all objects, and so must the new informers
// together. At the end, the new informers and their handlers must have all objects.
func TestShardsMove(t *testing.T) {
	for _, selects := range []bool{true, false} {
		server, client, ctx := serve(t, apiserver.Options{Pods: 60, Churn: 200})
		cfg := server.Config()
		if !selects {
			cfg = unsharded(cfg)
		}
		var running []pods
		var stop func()
		var told *handled
		for _, count := range []int{2, 3, 1} {
			infs, stopNew := shards(t, ctx, cfg, count, weir.Options{})
			told = handleAll(t, infs)
			for _, inf := range infs {
				check.NoError(t, inf.WaitForSync(ctx))
			}
			if stop != nil {
				// The old informers together must store each object that existed at this moment and still
				// exists, and so must the new informers together. Events in transit need some time, so the test
				// repeats the comparison.
				before := podsOf(t, ctx, client)
				testenv.Eventually(t, ctx, "both splits are whole", func() bool {
					now := podsOf(t, ctx, client)
					old, _ := union(running)
					fresh, _ := union(infs)
					for key, uid := range before {
						if now[key] == uid && (old[key] != uid || fresh[key] != uid) {
							return false
						}
					}
					return true
				})
				stop()
			}
			running, stop = infs, stopNew
		}
		server.StopChurn()
		want := podsOf(t, ctx, client)
		testenv.Eventually(t, ctx, "the informers have all pods", func() bool {
			got, err := union(running)
			return err == nil && maps.Equal(got, want)
		})
		testenv.Eventually(t, ctx, "the handlers were told of all pods", func() bool {
			told.mu.Lock()
			defer told.mu.Unlock()
			return maps.Equal(told.held, want)
		})
		stop()
	}
}

// TestShardOptions checks that NewInformer and Acquire reject invalid shards, and that users of
// different shards do not share an informer.
func TestShardOptions(t *testing.T) {
	for _, s := range []weir.Shard{{Count: -1}, {Index: 1}, {Index: 3, Count: 3}, {Index: -1, Count: 3}} {
		_, err := weir.NewInformer[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1:1"}, weir.Options{Shard: s})
		check.ErrorIs(t, err, weir.ErrInvalidOptions, "%+v", s)
	}
	server, _, ctx := serve(t, apiserver.Options{Pods: 100})
	f := weir.NewFactory(ctx, server.Config())
	use := func(s weir.Shard) *weir.SharedInformer[*corev1.Pod] {
		lease := acquire[*corev1.Pod](t, f, weir.Options{Shard: s})
		return lease
	}
	all, only := use(weir.Shard{}), use(weir.Shard{Count: 1})
	for _, s := range []weir.Shard{{Count: -1}, {Index: 1}, {Index: 3, Count: 3}, {Index: -1, Count: 3}} {
		if _, err := weir.Acquire[*corev1.Pod](f, weir.Options{Shard: s}); !errors.Is(err, weir.ErrInvalidOptions) {
			t.Errorf("%+v of a factory that has all: %v", s, err)
		}
	}
	first, again, second := use(weir.Shard{Count: 2}), use(weir.Shard{Count: 2}), use(weir.Shard{Index: 1, Count: 2})
	if all.Done() != only.Done() || first.Done() != again.Done() || first.Done() == second.Done() || first.Done() == all.Done() {
		t.Error("what is shared is not what holds the same")
	}
	check.NoError(t, f.Shutdown())
}
