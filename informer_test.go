package weir_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestMergedSelectors checks that the informer stores an object while at least one selector matches
// it.
func TestMergedSelectors(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "x")
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{
		Namespaces: []string{"d", "e"},
		Selectors:  []weir.Selector{{Label: "initial in (x, y)"}, {Label: "initial in (y, z)"}},
	})
	check.NoError(t, inf.WaitForSync(ctx))
	for _, step := range []struct {
		value string
		held  bool
	}{{"y", true}, {"z", true}, {"w", false}, {"x", true}} {
		rv := label(t, ctx, client, "d", "x", step.value)
		testenv.Eventually(t, ctx, "the pod is held as it is", func() bool {
			item, ok := inf.Item("d/x")
			return ok == step.held && (!ok || item.ResourceVersion() == rv)
		})
	}
}

// TestDrop checks that an informer with DropFields removes exactly these fields, and that an
// informer without DropFields removes none.
func TestDrop(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{Pods: 20})
	whole, _ := start[*corev1.Pod](t, ctx, server.Config(), weir.Options{})
	less, _ := start[*corev1.Pod](t, ctx, server.Config(), weir.Options{DropFields: []string{"metadata.managedFields", "status"}})
	for _, inf := range []*weir.Informer[*corev1.Pod]{whole, less} {
		check.NoError(t, inf.WaitForSync(ctx))
	}
	for want := range whole.All() {
		got, err := less.Get(want.Namespace + "/" + want.Name)
		check.NoError(t, err)
		if len(want.ManagedFields) == 0 || want.Status.Phase == "" {
			t.Fatal("the server's pods have nothing to drop")
		}
		if len(got.ManagedFields) != 0 || got.Status.Phase != "" {
			t.Errorf("%s still has what was dropped", got.Name)
		}
		if got.UID != want.UID || got.Spec.NodeName != want.Spec.NodeName || len(got.Spec.Containers) != len(want.Spec.Containers) {
			t.Errorf("%s lost more than was dropped", got.Name)
		}
	}
	_, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{DropFields: []string{"spec.nonsense"}})
	if !errors.Is(err, weir.ErrInvalidOptions) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a field that pods have not: %v", err)
	}
}

// TestDropLabels checks that an index by label contains neither dropped labels nor labels of
// deleted objects.
func TestDropLabels(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{Pods: 20})
	index := map[string]weir.Index{"app": weir.ByLabel("app"), "shade": weir.ByLabel("shade")}
	inf, _ := start[*corev1.Pod](t, ctx, server.Config(), weir.Options{DropFields: []string{"metadata.labels[app]"}, Indexes: index})
	check.NoError(t, inf.WaitForSync(ctx))
	pods, err := client.Pods("").List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	count := func(index, value string) (n int) {
		for _, err := range inf.By(index, value) {
			check.NoError(t, err)
			n++
		}
		return n
	}
	for i, pod := range pods.Items {
		if pod.Labels["app"] == "" || count("app", pod.Labels["app"]) != 0 {
			t.Fatalf("%d pods of %q are found by a label that is dropped", count("app", pod.Labels["app"]), pod.Labels["app"])
		}
		for _, shade := range []string{"light", "dark"} {
			pod.Labels["app"], pod.Labels["shade"] = "other", shade
			now, err := client.Pods(pod.Namespace).Update(ctx, &pod, metav1.UpdateOptions{})
			check.NoError(t, err)
			pod = *now
		}
		check.NoError(t, inf.WaitForResourceVersion(ctx, pod.ResourceVersion))
		if other, light, dark := count("app", "other"), count("shade", "light"), count("shade", "dark"); other+light != 0 || dark != 1 {
			t.Fatalf("pod %d: %d other, %d light, %d dark", i, other, light, dark)
		}
		check.NoError(t, client.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		testenv.Eventually(t, ctx, "the deleted pod is gone", func() bool { return count("shade", "dark") == 0 })
	}
	check.Equal(t, inf.Len(), 0, "pods are held")
}

// TestWaitForSyncSaysWhy checks that the waits return the error that prevents the sync
// (controller-runtime issue 1653 and kubeswift issue 460).
func TestWaitForSyncSaysWhy(t *testing.T) {
	faults := &apiserver.Faults{}
	server, _, ctx := serve(t, apiserver.Options{Faults: faults})
	remove := faults.Add(apiserver.Rule{
		Match: apiserver.Match("list", "configmaps"),
		Err:   apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no")),
	})
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{Name: "maps", ListWatch: weir.ListWatch{
		Backoff: weir.Backoff{Min: time.Millisecond, Max: time.Millisecond, Denied: time.Millisecond},
	}})
	if err := inf.WaitForErr(ctx); !errors.Is(err, weir.ErrForbidden) || !apierrors.IsForbidden(err) {
		t.Errorf("WaitForErr: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	err := inf.WaitForSync(short)
	if !errors.Is(err, weir.ErrNotSynced) || !errors.Is(err, context.Canceled) || !errors.Is(err, weir.ErrForbidden) {
		t.Errorf("WaitForSync: %v", err)
	}
	if !strings.Contains(fmt.Sprint(err), "maps") {
		t.Errorf("the error does not name the informer: %v", err)
	}
	remove()
	check.NoError(t, inf.WaitForSync(ctx))
	testenv.Eventually(t, ctx, "there is no error", func() bool { return inf.Err() == nil })
}

// TestStuckHandler checks that Run waits at most StopTimeout for a handler that does not return,
// and then returns an error that names the handler.
func TestStuckHandler(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "x")
	inf, err := weir.NewInformer[*corev1.ConfigMap](server.Config(), weir.Options{StopTimeout: time.Millisecond})
	check.NoError(t, err)
	entered, release := make(chan struct{}), make(chan struct{})
	reg, err := inf.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) {
		close(entered)
		<-release
	}, weir.HandlerOptions[*corev1.ConfigMap]{Name: "sleeper"})
	check.NoError(t, err)
	run, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- inf.Run(run) }()
	<-entered
	cancel()
	if err := <-done; !errors.Is(err, weir.ErrHandlerStuck) || !strings.Contains(err.Error(), "sleeper") {
		t.Errorf("Run: %v", err)
	}
	close(release)
	<-reg.Done()
	check.ErrorIs(t, inf.Run(ctx), weir.ErrStopped, "a second Run")
	if _, err := inf.Handle(func(context.Context, weir.Event[*corev1.ConfigMap]) {}, weir.HandlerOptions[*corev1.ConfigMap]{}); !errors.Is(err, weir.ErrStopped) {
		t.Errorf("Handle after Run: %v", err)
	}
	check.ErrorIs(t, inf.WaitForResourceVersion(ctx, "99999999"), weir.ErrStopped, "WaitForResourceVersion after Run")
}

// TestAddAndRemoveHandler adds a handler to a running informer and removes the handler. It checks
// that between these two calls the handler receives exactly the events that its filter accepts.
func TestAddAndRemoveHandler(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{})
	check.NoError(t, inf.WaitForSync(ctx))
	seen := make(chan string, 10)
	reg, err := inf.Handle(func(_ context.Context, e weir.Event[*corev1.ConfigMap]) { seen <- e.Key() }, weir.HandlerOptions[*corev1.ConfigMap]{
		Filter: func(i weir.Item[*corev1.ConfigMap]) bool { return i.Name() != "b" },
	})
	check.NoError(t, err)
	check.NoError(t, reg.WaitForSync(ctx))
	makeConfigMap(ctx, client, "d", "b")
	makeConfigMap(ctx, client, "d", "c")
	if a, c := <-seen, <-seen; a != "d/a" || c != "d/c" {
		t.Errorf("seen %s, %s", a, c)
	}
	reg.Remove()
	<-reg.Done()
	check.NoError(t, inf.WaitForResourceVersion(ctx, makeConfigMap(ctx, client, "d", "e").ResourceVersion))
	if len(seen) != 0 {
		t.Errorf("a removed handler saw %s", <-seen)
	}
	check.Equal(t, len(inf.Stats().Handlers), 0, "handlers are left")
}

// TestIndexErrors checks the errors of unknown, duplicate and invalid indexes, and of an index
// whose function fails.
func TestIndexErrors(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{Indexes: map[string]weir.Index{"i": weir.ByLabel("initial")}})
	check.NoError(t, inf.WaitForSync(ctx))
	check.ErrorIs(t, inf.AddIndex("i", weir.ByLabel("x")), weir.ErrIndexExists, "twice")
	check.ErrorIs(t, inf.AddIndex("n", weir.Index{}), weir.ErrInvalidOptions, "an index by nothing")
	check.ErrorIs(t, inf.AddIndex("n", weir.ByField("data.x.y")), weir.ErrInvalidOptions, "a field that is not there")
	for _, err := range inf.By("none", "x") {
		check.ErrorIs(t, err, weir.ErrUnknownIndex, "unknown")
	}
	fails := errors.New("fails")
	check.NoError(t, inf.AddIndex("f", weir.ByFunc(func(*corev1.ConfigMap) ([]string, error) { return nil, fails })))
	n := 0
	for _, err := range inf.By("f", "x") {
		if n++; !errors.Is(err, fails) {
			t.Errorf("a function that fails: %v", err)
		}
	}
	if n != 1 {
		t.Errorf("a function that fails gives %d results, want one error", n)
	}
	for m, err := range inf.By("i", "a") {
		if err != nil || m.Name != "a" {
			t.Errorf("the good index gives %v, %v", m, err)
		}
	}
}

// TestFactory checks that two users share one informer, and that the factory adds the second user's
// indexes to it. Release must remove the user's handlers, and the last Release must stop the
// informer.
func TestFactory(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	f := weir.NewFactory(ctx, server.Config())
	byName := weir.ByFunc(func(m *corev1.ConfigMap) ([]string, error) { return []string{m.Name}, nil })
	one := acquire[*corev1.ConfigMap](t, f, weir.Options{Indexes: map[string]weir.Index{"l": weir.ByLabel("initial"), "n": byName}})
	two := acquire[*corev1.ConfigMap](t, f, weir.Options{Indexes: map[string]weir.Index{"l": weir.ByLabel("initial"), "m": weir.ByLabel("m")}})
	if _, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{Indexes: map[string]weir.Index{"l": weir.ByLabel("other")}}); !errors.Is(err, weir.ErrIndexExists) {
		t.Errorf("another index under the same name: %v", err)
	}
	other := acquire[*corev1.ConfigMap](t, f, weir.Options{Namespaces: []string{"d"}})
	if one.Done() != two.Done() || other.Done() == one.Done() { // each informer has one Done channel
		t.Error("what is the same is not shared, or what is not is")
	}
	reg := handle(t, one, func(context.Context, weir.Event[*corev1.ConfigMap]) {})
	check.NoError(t, reg.WaitForSync(ctx))
	one.Release()
	one.Release()
	<-reg.Done()
	if _, err := two.Get("d/a"); err != nil {
		t.Error(err)
	}
	select {
	case <-two.Done():
		t.Error("the informer ended with a user left")
	default:
	}
	two.Release()
	<-two.Done()
	check.NoError(t, f.Shutdown())
	<-other.Done()
	if _, err := weir.Acquire[*corev1.ConfigMap](f, weir.Options{}); !errors.Is(err, weir.ErrStopped) {
		t.Errorf("after Shutdown: %v", err)
	}
}

func TestServerThatKnowsOnlyJSON(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"app": "web"}}, Data: map[string]string{"k": "v"}}
	if _, err := client.ConfigMaps("d").Create(ctx, m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inf, _ := start[*corev1.ConfigMap](t, ctx, jsonOnly(server.Config(), "application/json"), weir.Options{
		DropFields: []string{"metadata.managedFields"}, Indexes: map[string]weir.Index{"app": weir.ByLabel("app")},
	})
	meta, _ := start[*metav1.PartialObjectMetadata](t, ctx, jsonOnly(server.Config(), "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), weir.Options{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	})
	for _, wait := range []func() error{func() error { return inf.WaitForSync(ctx) }, func() error { return meta.WaitForSync(ctx) }} {
		check.NoError(t, wait())
	}
	rv := label(t, ctx, client, "d", "m", "changed")
	check.NoError(t, inf.WaitForResourceVersion(ctx, rv))
	check.NoError(t, meta.WaitForResourceVersion(ctx, rv))
	got, err := inf.Get("d/m")
	if err != nil || got.Data["k"] != "v" || got.Labels["initial"] != "changed" || inf.Err() != nil {
		t.Errorf("%+v, %v, %v", got, err, inf.Err())
	}
	head, err := meta.Get("d/m")
	if err != nil || head.Labels["initial"] != "changed" {
		t.Errorf("%+v, %v", head, err)
	}
	for o, err := range inf.By("app", "web") {
		t.Errorf("%v %v is in the index of a label that it has no more", o, err)
	}
}

// jsonOnly returns a config whose requests have the Accept header accept, which names only JSON.
// The server then answers like an aggregated server without protobuf.
func jsonOnly(cfg *rest.Config, accept string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Accept", accept)
			return next.RoundTrip(r)
		})
	})
	return cfg
}
