package weir_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// damagedServer serves the config maps d/a and d/b, and from the first watch on also d/c. Its first
// watch sends an event that cannot be read. Each of its lists contains two items that cannot be
// read, unless healed is set.
type damagedServer struct {
	healed         bool
	lists, watches atomic.Int64
}

func (s *damagedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	configMap := func(name, version string) string {
		return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"d","name":%q,"uid":"u%[1]s","resourceVersion":%q}}`, name, version)
	}
	twice := strings.Replace(configMap("x", "5"), `"kind"`, `"kind":"ConfigMap","kind"`, 1)
	w.Header().Set("Content-Type", "application/json")
	switch q := r.URL.Query(); {
	case r.URL.Path != "/api/v1/configmaps":
		http.NotFound(w, r)
	case q.Get("sendInitialEvents") != "":
		http.Error(w, "", http.StatusUnprocessableEntity)
	case q.Get("watch") == "":
		items, version := []string{"null", configMap("a", "1"), twice, configMap("b", "2")}, "3"
		if s.healed {
			items = []string{configMap("a", "1"), configMap("b", "2")}
		}
		if s.lists.Add(1); s.watches.Load() > 0 {
			items, version = append(items, configMap("c", "7")), "7"
		}
		fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, version, strings.Join(items, ","))
	default:
		if s.watches.Add(1) == 1 {
			fmt.Fprintf(w, "{\"type\":\"MODIFIED\",\"object\":null}\n{\"type\":\"ADDED\",\"object\":%s}\n", configMap("c", "7"))
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// damagedInformers contains functions that start an informer, by name. Each function returns two
// functions: keys returns the stored keys; status returns the number of skipped objects (-1 if
// unknown) and the informer's error.
var damagedInformers = map[string]func(*testing.T, *rest.Config) (keys func() []string, status func() (int, error)){
	"typed":        runDamaged[*corev1.ConfigMap],
	"unstructured": runDamaged[*unstructured.Unstructured],
	"client-go": func(t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
		return runFactory(t, informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0).Core().V1().ConfigMaps().Informer())
	},
	"client-go, dynamic": func(t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
		return runFactory(t, dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0).ForResource(configMaps).Informer())
	},
}

// TestDamagedItems checks that Weir's informers skip and count damaged objects in lists and events,
// and store all other objects. A damaged object is null or has a duplicate member. client-go's
// informers also store all undamaged items of a list.
func TestDamagedItems(t *testing.T) {
	names := func(keys []string) string {
		// client-go stores null as an object without a name, and the item with the duplicate member as
		// d/x. Weir stores neither of them.
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" || key == "d/x" })
		slices.Sort(keys)
		return strings.Join(keys, " ")
	}
	for name, run := range damagedInformers {
		t.Run(name, func(t *testing.T) {
			s := &damagedServer{}
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			t.Cleanup(server.CloseClientConnections)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			keys, status := run(t, &rest.Config{Host: server.URL, QPS: -1})
			if strings.HasPrefix(name, "client-go") { // each watch fails at the unreadable event
				testenv.Eventually(t, ctx, "it syncs", func() bool { return names(keys()) == "d/a d/b" || names(keys()) == "d/a d/b d/c" })
				return
			}
			testenv.Eventually(t, ctx, "it has all", func() bool { return names(keys()) == "d/a d/b d/c" })
			// The informer must not list again after the unreadable event. A list would not help: it
			// contains unreadable items too, and lacks the object of the event.
			if lists, watches := s.lists.Load(), s.watches.Load(); lists != 1 || watches != 1 {
				t.Errorf("%d lists, %d watches", lists, watches)
			}
			if skipped, err := status(); !errors.Is(err, weir.ErrMalformed) || skipped != 3 && skipped != -1 {
				t.Errorf("%v, %d skipped", err, skipped)
			}
		})
	}
	t.Run("a damaged event alone", func(t *testing.T) {
		s := &damagedServer{healed: true}
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		keys, status := runDamaged[*corev1.ConfigMap](t, &rest.Config{Host: server.URL, QPS: -1})
		testenv.Eventually(t, ctx, "a list heals it", func() bool {
			skipped, err := status()
			return s.lists.Load() == 2 && s.watches.Load() == 2 && err == nil && skipped == 0 && names(keys()) == "d/a d/b d/c"
		})
	})
}

func runDamaged[T weir.Object](t *testing.T, cfg *rest.Config) (func() []string, func() (int, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	inf, _ := start[T](t, ctx, cfg, weir.Options{Resource: configMaps})
	keys := func() (keys []string) {
		for item := range inf.Items() {
			keys = append(keys, item.Key())
		}
		return keys
	}
	return keys, func() (int, error) { return inf.Status()[0].Skipped, inf.Err() }
}

func runFactory(t *testing.T, inf cache.SharedIndexInformer) (func() []string, func() (int, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); inf.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return inf.GetStore().ListKeys, func() (int, error) { return -1, clientgo.Err(inf) }
}
