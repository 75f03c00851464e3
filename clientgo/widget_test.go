package clientgo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// Widget is the Go type of a custom resource, like the types that users write.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec WidgetSpec `json:"spec"`
}

// WidgetSpec is the spec of a widget.
type WidgetSpec struct {
	Teeth int `json:"teeth"`
}

// WidgetList is a list of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Widget `json:"items"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Widget)
	}
	return &c
}

var (
	widgetVersion  = schema.GroupVersion{Group: "shop.example", Version: "v1"}
	widgetKind     = widgetVersion.WithKind("Widget")
	widgetResource = widgetVersion.WithResource("widgets")
)

// widgetScheme returns a scheme that contains only widgets, like that of a generated clientset.
func widgetScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(widgetVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgetVersion)
	return s
}

// widgetClient returns a REST client like that of a generated clientset. Its config was passed to
// Wrap.
func widgetClient(t *testing.T, cfg *rest.Config) *rest.RESTClient {
	t.Helper()
	cfg = capturing(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &widgetVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(widgetScheme()).WithoutConversion()
	client, err := rest.RESTClientFor(cfg)
	check.NoError(t, err)
	return client
}

// widgetServer is a server of widgets. The keys of its lists have a given order. Its watches send
// no events, and it does not support initial events.
type widgetServer struct {
	keys    []string // keys of a list, in order
	widgets int
	partial bool // lists contain metadata only
	lists   atomic.Int32
}

// serveWidgets starts a server that stops when the test ends, and returns its config.
func serveWidgets(t *testing.T, s *widgetServer) *rest.Config {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}
}

func (s *widgetServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/apis/shop.example/v1/widgets" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Has("sendInitialEvents") {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","code":422,"reason":"Invalid"}`))
		return
	}
	if r.URL.Query().Get("watch") != "" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	s.lists.Add(1)
	// The client may have disconnected.
	_, _ = w.Write([]byte(s.list()))
}

func (s *widgetServer) list() string {
	list := map[string]string{
		"apiVersion": `"shop.example/v1"`, "kind": `"WidgetList"`,
		"metadata": `{"continue":"","resourceVersion":"100"}`,
	}
	if s.partial {
		list["apiVersion"], list["kind"] = `"meta.k8s.io/v1"`, `"PartialObjectMetadataList"`
	}
	var items []string
	for i := range s.widgets {
		items = append(items, s.widget(i))
	}
	list["items"] = "[" + strings.Join(items, ",") + "]"
	var members []string
	for _, key := range s.keys {
		members = append(members, fmt.Sprintf("%q:%s", key, list[key]))
	}
	return "{" + strings.Join(members, ",") + "}\n"
}

// widget returns an item whose keys have kube-apiserver's order. The item is longer than the bytes
// that one read of a body returns.
func (s *widgetServer) widget(i int) string {
	apiVersion, kind := "shop.example/v1", "Widget"
	if s.partial {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"name": fmt.Sprint("w", i), "namespace": "shop", "uid": fmt.Sprint("u", i), "resourceVersion": "7",
			"annotations": map[string]string{"note": strings.Repeat("long ", 2<<10)},
		},
		"spec": map[string]any{"teeth": i},
	})
	if err != nil {
		panic(err) // cannot happen: maps and strings can always be encoded
	}
	return string(text)
}

func keyOrders() [][]string {
	var orders [][]string
	var place func(order, left []string)
	place = func(order, left []string) {
		if len(left) == 0 {
			orders = append(orders, append([]string(nil), order...))
		}
		for i, key := range left {
			rest := append(append([]string(nil), left[:i]...), left[i+1:]...)
			place(append(order, key), rest)
		}
	}
	place(nil, []string{"apiVersion", "items", "kind", "metadata"})
	return orders
}

// widget is the internal type of widgets. Its name equals the kind except for the case of the first
// letter.
type widget struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Teeth int
}

type widgetList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []widget
}

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*widget))
	}
	return &c
}

// internalWidgets returns the ListerWatcher of a client whose config was passed to Wrap, and whose
// codec converts widgets to the internal type.
func internalWidgets(t *testing.T, cfg *rest.Config) *cache.ListWatch {
	t.Helper()
	known := widgetScheme()
	internal := schema.GroupVersion{Group: widgetVersion.Group, Version: runtime.APIVersionInternal}
	known.AddKnownTypeWithName(internal.WithKind("Widget"), &widget{})
	known.AddKnownTypeWithName(internal.WithKind("WidgetList"), &widgetList{})
	check.NoError(t, known.AddConversionFunc((*WidgetList)(nil), (*widgetList)(nil), func(a, b any, _ conversion.Scope) error {
		from, to := a.(*WidgetList), b.(*widgetList)
		to.ListMeta = from.ListMeta
		for _, w := range from.Items {
			to.Items = append(to.Items, widget{ObjectMeta: w.ObjectMeta, Teeth: w.Spec.Teeth})
		}
		return nil
	}))
	cfg = capturing(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &widgetVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(known)
	client, err := rest.RESTClientFor(cfg)
	check.NoError(t, err)
	params := runtime.NewParameterCodec(known)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := &widgetList{}
			err := client.Get().Resource("widgets").VersionedParams(&o, params).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Get().Resource("widgets").VersionedParams(&o, params).Watch(ctx)
		},
	}
}

// TestInternalType checks that an informer of an internal type stores the objects that the client's
// codec returns.
func TestInternalType(t *testing.T) {
	for maker, make := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			cfg := serveWidgets(t, &widgetServer{keys: []string{"kind", "apiVersion", "metadata", "items"}, widgets: 3})
			inf := make(noWatchList{internalWidgets(t, cfg)}, &widget{}, 0, cache.Indexers{})
			runSynced(t, inf)
			got, ok, err := inf.GetStore().GetByKey("shop/w2")
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if w := got.(*widget); w.Name != "w2" || w.UID != "u2" || w.Teeth != 2 {
				t.Errorf("holds %+v", w)
			}
		})
	}
}

// TestHasWireForm checks for which types the informer captures responses.
func TestHasWireForm(t *testing.T) {
	type derived struct {
		corev1.Pod `json:",inline"`
		Note       string `json:"note"`
	}
	type named struct {
		metav1.TypeMeta
		Meta metav1.ObjectMeta
	}
	type tagged struct {
		Meta *metav1.ObjectMeta `json:"metadata"`
	}
	for _, of := range []any{&corev1.Pod{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}, &Widget{}, &derived{}, &tagged{}} {
		if !hasWireForm(reflect.TypeOf(of)) {
			t.Errorf("%T is not captured", of)
		}
	}
	for _, of := range []any{&widget{}, &named{}} {
		if hasWireForm(reflect.TypeOf(of)) {
			t.Errorf("%T is captured", of)
		}
	}
}
