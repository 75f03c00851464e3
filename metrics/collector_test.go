package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts an embedded server with pods and the given faults.
func serve(t *testing.T, faults ...apiserver.Rule) *apiserver.Server {
	t.Helper()
	opts := apiserver.Options{Pods: 30, Seed: 1, Faults: &apiserver.Faults{}}
	for _, f := range faults {
		opts.Faults.Add(f)
	}
	server, err := apiserver.New(opts)
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	check.NoError(t, server.Start())
	return server
}

// start runs an informer until the test ends or stop is called.
func start(t *testing.T, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// native starts an informer of pods, and returns when its handler has synced.
func native(t *testing.T, server *apiserver.Server, name string) (stop func()) {
	t.Helper()
	inf, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{Name: name})
	check.NoError(t, err)
	r, err := inf.Handle(func(context.Context, weir.Event[*corev1.Pod]) {}, weir.HandlerOptions[*corev1.Pod]{Name: "keys"})
	check.NoError(t, err)
	stop = start(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	wait(t, r.WaitForSync)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testenv.Eventually(t, ctx, "a reflector tells that it has synced", func() bool {
		return slices.ContainsFunc(inf.Status(), func(s weir.Status) bool { return s.Synced })
	})
	return stop
}

func wait(t *testing.T, until func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check.NoError(t, until(ctx))
}

// compare checks that the named metrics equal want.
func compare(t *testing.T, want string, names ...string) {
	t.Helper()
	for n := range names {
		names[n] = prefix + names[n]
	}
	check.NoError(t, testutil.CollectAndCompare(NewCollector(), strings.NewReader(want), names...))
}

func TestTyped(t *testing.T) {
	server := serve(t)
	compare(t, "")
	stop := native(t, server, "pods")
	native(t, server, "pods")
	compare(t, `
# HELP weir_informer_handler_events_total Events passed to the handler, resyncs included.
# TYPE weir_informer_handler_events_total counter
weir_informer_handler_events_total{group="",handler="keys",kind="Pod",name="pods",version="v1"} 30
weir_informer_handler_events_total{group="",handler="keys",kind="Pod",name="pods#2",version="v1"} 30
# HELP weir_informer_handler_synced 1 after the handler has handled every object of the informer's first list, and every object that was stored when the handler was added.
# TYPE weir_informer_handler_synced gauge
weir_informer_handler_synced{group="",handler="keys",kind="Pod",name="pods",version="v1"} 1
weir_informer_handler_synced{group="",handler="keys",kind="Pod",name="pods#2",version="v1"} 1
# HELP weir_informer_objects Stored objects.
# TYPE weir_informer_objects gauge
weir_informer_objects{group="",kind="Pod",name="pods",version="v1"} 30
weir_informer_objects{group="",kind="Pod",name="pods#2",version="v1"} 30
`, "handler_events_total", "handler_synced", "objects")
	stop()
	compare(t, `
# HELP weir_informer_synced 1 after the first list of each reflector is stored.
# TYPE weir_informer_synced gauge
weir_informer_synced{group="",kind="Pod",name="pods#2",version="v1"} 1
`, "synced")
}

// TestNotHeard checks that an informer whose server has never answered exports no age, no
// resourceVersion and no kind.
func TestNotHeard(t *testing.T) {
	cfg := &rest.Config{Host: "http://127.0.0.1:1"}
	failed := make(chan struct{}, 1)
	inf, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{Name: "lost", OnStatus: func(s weir.Status) {
		if s.Err != nil {
			select {
			case failed <- struct{}{}:
			default:
			}
		}
	}})
	check.NoError(t, err)
	start(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	<-failed
	compare(t, `
# HELP weir_informer_failing_reflectors Reflectors with an error that prevents them from being current.
# TYPE weir_informer_failing_reflectors gauge
weir_informer_failing_reflectors{group="",kind="",name="lost",version=""} 1
# HELP weir_informer_synced 1 after the first list of each reflector is stored.
# TYPE weir_informer_synced gauge
weir_informer_synced{group="",kind="",name="lost",version=""} 0
`, "failing_reflectors", "synced", "age_seconds", "state_age_seconds", "store_resource_version")
}

// TestRelists checks that the counter of relists has a series for each reason from the start.
// Otherwise Prometheus' rate would not show the first relist.
func TestRelists(t *testing.T) {
	server := serve(t, apiserver.Rule{Match: apiserver.Match("watch", "pods"), Times: 1, Err: apierrors.NewResourceExpired("gone")})
	relisted := make(chan struct{}, 1)
	inf, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{Name: "pods", OnStatus: func(s weir.Status) {
		if s.Relists == 1 {
			select {
			case relisted <- struct{}{}:
			default:
			}
		}
	}})
	check.NoError(t, err)
	start(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	<-relisted
	want := "# HELP weir_informer_relists_total Complete states received after the first.\n# TYPE weir_informer_relists_total counter\n"
	for _, reason := range []string{"behind", "expired", "failed", "missing", "refused", "silent", "unreachable", "unreadable", "unversioned", "went_back"} {
		n := "0"
		if reason == "expired" {
			n = "1"
		}
		want += `weir_informer_relists_total{group="",kind="Pod",name="pods",reason="` + reason + `",version="v1"} ` + n + "\n"
	}
	compare(t, want, "relists_total")
}

// TestBounded checks that the number of series does not grow with the number of objects.
func TestBounded(t *testing.T) {
	server := serve(t)
	native(t, server, "pods")
	few := testutil.CollectAndCount(NewCollector())
	cfg := rest.CopyConfig(server.Config())
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	check.NoError(t, err)
	held := engine.Running()[0].Value
	for i := range 100 {
		name := fmt.Sprint("pod-", i)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{name: name}}}
		if pod, err = client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wait(t, func(ctx context.Context) error { return held.WaitForResourceVersion(ctx, pod.ResourceVersion) })
	}
	if many := testutil.CollectAndCount(NewCollector()); many != few || held.Store().Len() != 130 {
		t.Errorf("%d series of 30 objects, %d of %d", few, many, held.Store().Len())
	}
}

// TestLongestCall checks that the longest call may be a call that is still active.
func TestLongestCall(t *testing.T) {
	server := serve(t)
	inf, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{Name: "pods"})
	check.NoError(t, err)
	called := make(chan struct{})
	if _, err := inf.Handle(func(ctx context.Context, _ weir.Event[*corev1.Pod]) {
		close(called)
		<-ctx.Done()
	}, weir.HandlerOptions[*corev1.Pod]{Name: "blocked"}); err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	<-called
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector())
	families, err := registry.Gather()
	check.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	busy := got[prefix+"handler_busy_seconds"]
	if busy <= 0 || got[prefix+"handler_longest_call_seconds"] != busy || got[prefix+"handler_call_seconds_total"] != busy {
		t.Errorf("%v", got)
	}
}

// TestRegistry checks that Prometheus' registry accepts the metrics, also of informers with odd
// names, and that Prometheus' linter accepts the names of the metrics.
func TestRegistry(t *testing.T) {
	server := serve(t)
	native(t, server, "pods")
	for _, odd := range []string{"", "a\xff", "a\xfe", "\u2028{\"}"} {
		native(t, server, odd)
	}
	r := prometheus.NewPedanticRegistry()
	check.NoError(t, r.Register(NewCollector()))
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(NewCollector())
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if err := r.Register(NewCollector()); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("a second collector: %v", err)
	}
}

func TestDigits(t *testing.T) {
	for rv, want := range map[string]float64{"0": 0, "7": 7, "1234567890123456789": 567890123456789, "99999999999999999999999": 999999999999999} {
		if got, ok := digits(rv); !ok || got != want {
			t.Errorf("%s: %v, %v", rv, got, ok)
		}
	}
	for _, rv := range []string{"", "abc", "12-3", "v1-000000000000123"} {
		if _, ok := digits(rv); ok {
			t.Errorf("%q is taken for a number", rv)
		}
	}
}
