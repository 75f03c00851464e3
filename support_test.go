package weir_test

import (
	"context"
	"log"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Widget is the Go type of a custom resource, like the types that users write.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec WidgetSpec `json:"spec"`
}

// WidgetSpec is the desired state of a widget.
type WidgetSpec struct {
	Teeth int `json:"teeth"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

var widgetVersion = schema.GroupVersion{Group: "shop.example", Version: "v1"}

func widgetScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(widgetVersion, &Widget{})
	return s
}

// serveWidgets registers the custom resource Widget with the server, under a name that is not its
// kind's plural, and creates one object.
func serveWidgets(ctx context.Context, server *apiserver.Server) {
	resource := widgetVersion.WithResource("widgetry")
	err := server.Register(apiserver.Resource{GroupVersionResource: resource, Kind: "Widget", Namespaced: true})
	if err != nil {
		log.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(server.Config())
	_, err = client.Resource(resource).Namespace("shop").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetVersion.String(),
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "gear"},
		"spec":       map[string]any{"teeth": int64(12)},
	}}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The tests' own clients leave idle connections: client-go shares them between clients and never
		// closes them.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"),
	)
}

// patience limits every wait. It is long because no test measures time.
const patience = time.Minute

// serve starts an embedded API server that stops at the end of the test. The context ends after
// patience.
func serve(t *testing.T, opts apiserver.Options) (*apiserver.Server, corev1client.CoreV1Interface, context.Context) {
	t.Helper()
	opts.AnyNamespace = true
	server, err := apiserver.New(opts)
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(func() {
		cancel()
		check.NoError(t, server.Close())
	})
	return server, corev1client.NewForConfigOrDie(server.Config()), ctx
}

// start runs an informer until the test ends. The returned function stops the informer and waits
// until Run has returned.
func start[T weir.Object](t *testing.T, ctx context.Context, cfg *rest.Config, opts weir.Options) (*weir.Informer[T], func()) {
	t.Helper()
	inf, err := weir.NewInformer[T](cfg, opts)
	check.NoError(t, err)
	return inf, runInformer(t, ctx, inf)
}

// runInformer runs an informer until the test ends or calls stop.
func runInformer[T weir.Object](t *testing.T, ctx context.Context, inf *weir.Informer[T]) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := inf.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func acquire[T weir.Object](t *testing.T, f *weir.Factory, opts weir.Options) *weir.SharedInformer[T] {
	t.Helper()
	inf, err := weir.Acquire[T](f, opts)
	check.NoError(t, err)
	return inf
}

// handle adds a handler without options to an informer or a shared informer.
func handle[T weir.Object](t *testing.T, inf interface {
	Handle(weir.Handler[T], weir.HandlerOptions[T]) (*weir.Registration, error)
}, h weir.Handler[T]) *weir.Registration {
	t.Helper()
	r, err := inf.Handle(h, weir.HandlerOptions[T]{})
	check.NoError(t, err)
	return r
}

// label replaces the labels of a config map by one, "initial", and returns the new resourceVersion.
func label(t *testing.T, ctx context.Context, client corev1client.CoreV1Interface, namespace, name, value string) string {
	t.Helper()
	m, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	check.NoError(t, err)
	m.Labels = map[string]string{"initial": value}
	m, err = client.ConfigMaps(namespace).Update(ctx, m, metav1.UpdateOptions{})
	check.NoError(t, err)
	return m.ResourceVersion
}
