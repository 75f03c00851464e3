package monitoring

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/metrics"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// monitored are the programs for which deploy has a dashboard and alert rules, by folder.
var monitored = map[string]struct {
	// start starts a program, and returns the address of its metrics.
	start   func(*testing.T) (address string)
	queries int      // the dashboard has at least as many queries
	rules   int      // there are at least as many rules
	names   string   // the query of a dashboard's variable, and
	want    []string // its values
	label   string   // each series of a legend with this label must include
	series  []string // these values
}{
	"informers": {informers, 25, 9, "label_values(weir_informer_synced, name)", []string{"*v1.Pod", "pods"}, "name", []string{"*v1.Pod", "pods"}},
	"proxy":     {proxies, 20, 8, "label_values(weir_proxy_current, resource)", []string{"configmaps", "pods"}, "resource", []string{"pods"}},
}

// file returns the path of a file of a folder of deploy.
func file(folder, name string) string { return filepath.Join("../../deploy", folder, name) }

func run(t *testing.T, what func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		what(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// informers runs a typed informer and a drop-in informer of pods that change. It serves the metrics
// of both from controller-runtime's registry, which also has controller-runtime's own metrics. It
// returns the address of the metrics.
func informers(t *testing.T) (address string) {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{Pods: 100, Seed: 1, Churn: 100})
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	check.NoError(t, server.Start())
	inf, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{Name: "pods"})
	check.NoError(t, err)
	typed, err := inf.Handle(func(context.Context, weir.Event[*corev1.Pod]) {}, weir.HandlerOptions[*corev1.Pod]{Name: "keys", Resync: 10 * time.Second})
	check.NoError(t, err)
	run(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0)
	dropIn := factory.Core().V1().Pods().Informer()
	handler, err := dropIn.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
	check.NoError(t, err)
	run(t, dropIn.RunWithContext)
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check.NoError(t, typed.WaitForSync(wait))
	if !cache.WaitForCacheSync(wait.Done(), handler.HasSynced) {
		t.Fatal("the drop-in has not synced")
	}
	collector := metrics.NewCollector()
	ctrlmetrics.Registry.MustRegister(collector)
	t.Cleanup(func() { ctrlmetrics.Registry.Unregister(collector) })
	web := httptest.NewServer(promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{}))
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

// client opens a new connection for each request, so that no idle connection counts as a leak.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
