package clientgo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// Widget is a custom resource as users declare it.
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

// widgetScheme returns a scheme that knows only widgets, as a generated clientset's does.
func widgetScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypes(widgetVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgetVersion)
	return s
}

// widgetClient returns the capturing REST client of a generated clientset.
func widgetClient(t *testing.T, cfg *rest.Config) *rest.RESTClient {
	t.Helper()
	cfg = capturing(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &widgetVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(widgetScheme()).WithoutConversion()
	client, err := rest.RESTClientFor(cfg)
	check.NoError(t, err)
	return client
}

// widgetServer answers LISTs of widgets, with the list's keys in a given order, and WATCHes without
// events. It refuses initial events.
type widgetServer struct {
	keys    []string // of the list
	widgets int
	partial bool // lists are of metadata
	lists   atomic.Int32
}

// serveWidgets runs a server until the test ends.
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

// widget returns an item with its keys in kube-apiserver's order. It is longer than what one read
// of a body brings.
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

// keyOrders returns all orders of the keys of a list.
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
