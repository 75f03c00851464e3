//go:build !oldest

package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestEnableWatchBookmarks checks that WATCHes request bookmarks unless the options of all kinds,
// of one kind or of a namespace turn bookmarks off. The server refuses initial events: client-go
// would request them even without bookmarks, and would then wait for ever for the bookmark that
// ends them.
func TestEnableWatchBookmarks(t *testing.T) {
	for name, tc := range map[string]struct {
		options cache.Options
		ask     []string // namespaces whose WATCHes must request bookmarks
	}{
		"by default":   {cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, []string{"a", "b"}},
		"of all kinds": {cache.Options{DefaultEnableWatchBookmarks: new(false), DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, nil},
		"of a kind": {cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}, ByObject: byPod(cache.ByObject{EnableWatchBookmarks: new(false)}),
		}, nil},
		"of a namespace": {cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {EnableWatchBookmarks: new(false)}, "b": {}}}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *setup) {
				watches := recordWatches(s)
				s.create(pod("a", "1"), pod("b", "1"))
				c := s.start(s.cache(tc.options))
				calls := s.follow(s.informer(c, &corev1.Pod{}))
				s.create(pod("a", "2"))
				calls.waitFor("add initial=false a/2")
				s.create(pod("b", "2"))
				calls.waitFor("add initial=false b/2")
				for _, namespace := range []string{"a", "b"} {
					want := ""
					if slices.Contains(tc.ask, namespace) {
						want = "true"
					}
					if asked := watches.of(namespace); !slices.Equal(asked, []string{want}) {
						t.Errorf("the WATCHes of namespace %s have allowWatchBookmarks=%q, want %q in the only one", namespace, asked, want)
					}
				}
			})
		})
	}
}

// watchLog contains the parameter allowWatchBookmarks of the WATCHes of pods, by path.
type watchLog struct {
	mu    sync.Mutex
	asked map[string][]string
}

func (l *watchLog) of(namespace string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked["/api/v1/namespaces/"+namespace+"/pods"])
}

// recordWatches makes the server refuse the WATCHes of pods that request initial events. It records
// all other WATCHes of pods.
func recordWatches(s *setup) *watchLog {
	l := &watchLog{asked: map[string][]string{}}
	watch := apiserver.Match("watch", "pods")
	s.faults.Add(apiserver.Rule{
		Match: func(r *http.Request) bool {
			q := r.URL.Query()
			if !watch(r) || q.Get("sendInitialEvents") != "" {
				return watch(r)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.asked[r.URL.Path] = append(l.asked[r.URL.Path], q.Get("allowWatchBookmarks"))
			return false
		},
		Err: apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil),
	})
	return l
}

// TestListsWithoutBookmarks watches unchanged pods for twelve hours without bookmarks, while other
// objects on the server change. The informer cannot detect whether such a watch has lost events.
// Therefore Weir's informers must list five times in the first half hour, and then less and less
// often, as docs/reference/differences.md promises. Afterwards a pod changes every twenty minutes;
// handlers must receive each change once.
func TestListsWithoutBookmarks(t *testing.T) {
	eachWithoutBookmarks(t, informertest.Refused, listsWithoutBookmarks)
}

// TestSyncWithoutBookmarks checks that caches with Weir's informers sync without bookmarks if the
// server supports initial events, and that controller-runtime's own cache does not. Its informers
// request initial events, and never receive the bookmark that ends them.
func TestSyncWithoutBookmarks(t *testing.T) {
	eachWithoutBookmarks(t, informertest.Honoured, func(s *setup, _ *informertest.Server, c cache.Cache) {
		inf, err := c.GetInformer(s.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		check.NoError(s.t, err)
		time.Sleep(time.Hour)
		check.Equal(s.t, inf.HasSynced(), s.builder.ours, "synced after an hour")
	})
}

// eachWithoutBookmarks runs a test with every builder, in virtual time. The server has one pod; the
// cache is running and requests no bookmarks.
func eachWithoutBookmarks(t *testing.T, initial informertest.InitialEvents, test func(*setup, *informertest.Server, cache.Cache)) {
	defer func(was []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = was }(utilruntime.ErrorHandlers)
	// The default handlers sleep between two logged errors. If an error was logged outside of the
	// synctest bubble, they would sleep for years of the bubble's clock.
	utilruntime.ErrorHandlers = nil
	for _, b := range builders {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := informertest.NewServer()
				defer server.Close()
				server.SetInitialEvents(initial)
				server.Put(pod("a", "1"))
				scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
				check.NoError(t, clientgoscheme.AddToScheme(scheme))
				mapper.Add(podKind, meta.RESTScopeNamespace)
				c, err := b.newCache(server.Config(), cache.Options{
					Scheme: scheme, Mapper: mapper, DefaultEnableWatchBookmarks: new(false), SyncPeriod: new(100 * time.Hour),
				})
				check.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() {
					if err := c.Start(ctx); err != nil {
						t.Error(err)
					}
				})
				defer running.Wait()
				defer cancel()
				test(&setup{t: t, ctx: ctx, builder: b}, server, c)
			})
		})
	}
}

func listsWithoutBookmarks(s *setup, server *informertest.Server, c cache.Cache) {
	calls := s.follow(s.informer(c, &corev1.Pod{}))
	began, t := time.Now(), s.t
	changeOthers(server, 12*time.Hour)
	lists := fullLists(t, server)
	early := 0
	for i, at := range lists {
		if at.Sub(began) < 4*time.Hour {
			early++
		}
		if gap := at.Sub(lists[max(i-1, 0)]); gap > 150*time.Minute {
			t.Errorf("list %d came %s after the one before", i, gap)
		}
	}
	if early > 10 || len(lists) > 13 || s.builder.ours && len(lists) < 13 {
		t.Errorf("%d lists in four hours, want 10 at most; %d in twelve, want 13", early, len(lists))
	}
	want := []string{"add initial=true a/1"}
	for i := range 12 {
		server.Put(pod("a", "1", node(fmt.Sprint("n", i))))
		want = append(want, "update a/1")
		changeOthers(server, 20*time.Minute)
	}
	if told := calls.all(); !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if n := len(fullLists(t, server)); n > 61 {
		t.Errorf("%d lists in sixteen hours, want 13, and four for each of twelve changes", n)
	}
}

// changeOthers advances the server's resourceVersion every 30 s for the duration d, as changes of
// objects of other resources do.
func changeOthers(server *informertest.Server, d time.Duration) {
	for began := time.Now(); time.Since(began) < d; time.Sleep(30 * time.Second) {
		server.Advance(1)
	}
}

// fullLists returns the times of a server's LISTs, without probes. It reports a WATCH that
// requested bookmarks as an error.
func fullLists(t *testing.T, server *informertest.Server) []time.Time {
	t.Helper()
	var lists []time.Time
	for _, r := range server.Requests() {
		switch {
		case r.Op == informertest.Watch && r.Query.Get("allowWatchBookmarks") != "":
			t.Errorf("a WATCH asks for bookmarks: %v", r.Query)
		case r.Op == informertest.List && r.Query.Get("limit") != "1":
			lists = append(lists, r.At)
		}
	}
	return lists
}
