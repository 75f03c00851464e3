//go:build !weir_safe

package clientgo

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestFactoriesCapture checks that the informers of factories capture responses although the
// program did not call Wrap. The clients of the factories must not change: other goroutines use
// them at the same time, and their requests must not pass this package's transport.
func TestFactoriesCapture(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil))
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	typed := kubernetes.NewForConfigOrDie(server.Config())
	done := make(chan error)
	go func() {
		var err error
		for range 20 {
			if err == nil {
				_, err = typed.CoreV1().ConfigMaps("one").Get(t.Context(), "a", metav1.GetOptions{})
			}
		}
		done <- err
	}()
	for name, inf := range map[string]cache.SharedIndexInformer{
		"typed":    NewSharedInformerFactory(typed, 0).Core().V1().ConfigMaps().Informer(),
		"options":  NewSharedInformerFactoryWithOptions(typed, 0, WithNamespace("one")).Core().V1().ConfigMaps().Informer(),
		"filtered": NewFilteredSharedInformerFactory(typed, 0, "one", nil).Core().V1().ConfigMaps().Informer(),
		"adopted":  AdoptFactory(informers.NewSharedInformerFactory(typed, 0)).Core().V1().ConfigMaps().Informer(),
		"wrapped":  newFactory(t, capturing(server.Config())).Core().V1().ConfigMaps().Informer(),
		"dynamic":  NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(server.Config()), 0).ForResource(resource).Informer(),
		"metadata": NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(server.Config()), 0).ForResource(resource).Informer(),
	} {
		inf.GetStore() // so that an adopted factory's informer starts
		runSynced(t, inf)
		i := must(informerOf(inf))
		check.Equal(t, len(i.GetStore().ListKeys()), 1, "%s: objects", name)
		if i.stats.BodyBytes.Load() == 0 {
			t.Errorf("%s: captured no response", name)
		}
	}
	check.NoError(t, <-done)
	for rt := range roundTrippers(typed.CoreV1().RESTClient().(*rest.RESTClient).Client.Transport) {
		if _, ok := rt.(*transport); ok {
			t.Error("the transport of the program's client has changed")
		}
	}
}

// TestCopiedClient checks that a copy of a client has all its fields except the transport: the
// copies differ in nothing else, also in later releases of client-go.
func TestCopiedClient(t *testing.T) {
	cfg := &rest.Config{Host: "http://server", UserAgent: "program", Timeout: waitTimeout, RateLimiter: &limiter{}, WarningHandler: rest.NoWarnings{}}
	theirs := kubernetes.NewForConfigOrDie(cfg)
	ours := withTransport(&settings{}, theirs)
	from, to := theirs.AppsV1().RESTClient().(*rest.RESTClient), ours.AppsV1().RESTClient().(*rest.RESTClient)
	check.Equal(t, to.Client.Timeout, from.Client.Timeout, "timeout")
	check.Equal(t, to.Client.Transport.(*transport).next, from.Client.Transport, "the transport below")
	same := *to.Client
	same.Transport = from.Client.Transport
	to.Client = &same
	check.Equal(t, alike(reflect.ValueOf(from), reflect.ValueOf(to), maxCompared), true, "the other fields are alike")
	check.Equal(t, to.Get().Resource("deployments").URL().String(), from.Get().Resource("deployments").URL().String(), "URL")
}

// TestClientsThatStay checks which clients factories use themselves.
func TestClientsThatStay(t *testing.T) {
	before := wrapped.Load()
	t.Cleanup(func() { wrapped.Store(before) })
	type byValue struct{ kubernetes.Interface }
	plain := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://server"})
	for name, test := range map[string]struct {
		client kubernetes.Interface
		opts   Options
		logs   int // log lines, unless the program has called Wrap
	}{
		"fake":         {fake.NewClientset(), Options{}, 0},
		"nil":          {nil, Options{}, 0},
		"nil set":      {(*kubernetes.Clientset)(nil), Options{}, 0},
		"embedded":     {&struct{ kubernetes.Interface }{plain}, Options{}, 1},
		"by value":     {byValue{plain}, Options{}, 1},
		"foreign REST": {kubernetes.New(&struct{ rest.Interface }{}), Options{}, 1},
		"no capture":   {plain, Options{NoCapture: true}, 0},
		"off":          {plain, Options{Off: true}, 0},
	} {
		resetOff(t)
		for _, called := range []bool{true, false, false} { // it logs once
			wrapped.Store(called)
			log, s := captureLog(t), settings{informer: test.opts}
			if got := withTransport(&s, test.client); got != test.client || s.informer.clientCopied {
				t.Errorf("%s: became %T %v, copied %t", name, got, got, s.informer.clientCopied)
			}
			lines := log.containing("clientgo.Wrap")
			if test.logs == 0 || called {
				check.Equal(t, len(lines), 0, "%s: log lines", name)
			} else if test.logs--; len(lines) != 1 || !strings.Contains(lines[0], reflect.TypeOf(test.client).String()) {
				t.Errorf("%s: logged %q", name, lines)
			}
		}
	}
	s := settings{}
	withTransport(&s, kubernetes.NewForConfigOrDie(Wrap(&rest.Config{Host: "http://server"})))
	check.Equal(t, s.informer.clientCopied, true, "a client with the transport may capture")
	empty := withTransport(&settings{}, kubernetes.New(nil))
	check.Equal(t, empty.CoreV1().RESTClient(), nil, "no client for REST")
	withTransport(&settings{}, kubernetes.New((*rest.RESTClient)(nil))) // as of a fake clientset
	if next := copyRESTClient(&rest.RESTClient{}).Client.Transport.(*transport).next; next != http.DefaultTransport {
		t.Errorf("without a client, the transport is %T", next)
	}
}

// filtering is a program's own client, which changes the results of client-go's.
type filtering struct{ *dynamic.DynamicClient }

type filteredResource struct {
	dynamic.NamespaceableResourceInterface
}

func (f *filtering) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return filteredResource{f.DynamicClient.Resource(r)}
}

func (r filteredResource) Namespace(string) dynamic.ResourceInterface { return r }

func (r filteredResource) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := r.NamespaceableResourceInterface.List(ctx, o)
	if err == nil {
		list.Items = slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetNamespace() != "one" })
	}
	return list, err
}

// TestClientAroundClient checks that a factory uses a program's own type around a client as it is.
func TestClientAroundClient(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("two", "hidden", nil))
	client := &filtering{dynamic.NewForConfigOrDie(server.Config())}
	inf := NewDynamicSharedInformerFactory(client, 0).ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer()
	runSynced(t, inf)
	check.Equal(t, strings.Join(inf.GetStore().ListKeys(), " "), "one/a", "keys")
}

// TestFactoryAffectsNoOtherInformer checks that an informer without a factory is not affected by a
// factory that has copied its client: it receives no marks, and logs nothing about capturing.
func TestFactoryAffectsNoOtherInformer(t *testing.T) {
	before := wrapped.Swap(false)
	t.Cleanup(func() { wrapped.Store(before) })
	server := serve(t, apiserver.Options{})
	client := fill(t, server.Config(), configMap("one", "a", nil))
	NewSharedInformerFactory(client, 0)
	var limits atomic.Int64
	log := captureLog(t)
	lw := withoutContexts(client.CoreV1().ConfigMaps(""), func(o *metav1.ListOptions) { limits.Add(o.Limit) })
	runSynced(t, NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, nil))
	check.Equal(t, limits.Load(), 0, "limits")
	check.Equal(t, len(log.uncaptured()), 0, "log lines")
}

// TestRefusedFactoryKeepsClient checks that a factory whose informers remain client-go's keeps its
// client.
func TestRefusedFactoryKeepsClient(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://server"})
	f := &struct {
		client    kubernetes.Interface
		informers map[reflect.Type]cache.SharedIndexInformer
	}{client, map[reflect.Type]cache.SharedIndexInformer{}}
	AdoptFactory(f)
	if f.client != kubernetes.Interface(client) {
		t.Error("a factory without a lock has another client")
	}
	known := layoutKnown
	t.Cleanup(func() { layoutKnown = known })
	layoutKnown = func() bool { return false }
	if withTransport(&settings{}, client) != client {
		t.Error("a client was copied although the informers remain client-go's")
	}
}
