package controllerruntime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// serveSorted starts a server with n widgets. The JSON keys of its lists are sorted, as in
// kube-apiserver's lists of custom resources. Its watches send no events.
func serveSorted(t *testing.T, n int) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/apis/example.org/v1/widgets":
			http.NotFound(w, r)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			items := []any{}
			for i := range n {
				items = append(items, map[string]any{
					"apiVersion": "example.org/v1", "kind": "Widget",
					"metadata": map[string]any{
						"name": fmt.Sprint("w", i), "namespace": "a", "uid": fmt.Sprint("u", i), "resourceVersion": "7",
						"annotations": map[string]any{"note": strings.Repeat("long ", 500)},
					},
					"spec": map[string]any{"color": "red"},
				})
			}
			list := map[string]any{
				"apiVersion": "example.org/v1", "items": items, "kind": "WidgetList", "metadata": map[string]any{"resourceVersion": "9"},
			}
			if err := json.NewEncoder(w).Encode(list); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, QPS: -1}
}

// gear is a widget, but its Go type has another name than the kind.
type gear struct{ widget }

type gearList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []gear `json:"items"`
}

// decodedGears counts the gears in lists that a client has decoded.
var decodedGears atomic.Int32

func (l *gearList) UnmarshalJSON(text []byte) error {
	type plain gearList
	err := json.Unmarshal(text, (*plain)(l))
	decodedGears.Add(int32(len(l.Items)))
	return err
}

func (g *gear) DeepCopyObject() runtime.Object { return &gear{*g.widget.DeepCopyObject().(*widget)} }

func (l *gearList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = append([]gear(nil), l.Items...)
	return &c
}

// TestCustomResourcesAlone checks that a cache syncs if its scheme contains only one custom
// resource. Decoded gears are counted, so for gears it also checks that the client decodes none.
func TestCustomResourcesAlone(t *testing.T) {
	own := func(object, list runtime.Object) *runtime.Scheme {
		s := runtime.NewScheme()
		s.AddKnownTypeWithName(widgetKind, object)
		s.AddKnownTypeWithName(widgetKind.GroupVersion().WithKind("WidgetList"), list)
		metav1.AddToGroupVersion(s, widgetKind.GroupVersion())
		return s
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{widgetKind.GroupVersion()})
	mapper.Add(widgetKind, meta.RESTScopeNamespace)
	for _, tc := range []struct {
		name   string
		scheme *runtime.Scheme
		object client.Object
		n      int
	}{
		{"typed", own(&widget{}, &widgetList{}), &widget{}, 3},
		{"typed, empty", own(&widget{}, &widgetList{}), &widget{}, 0},
		{"typed, called otherwise", own(&gear{}, &gearList{}), &gear{}, 3},
		{"unstructured", own(&widget{}, &widgetList{}), untyped(widgetKind), 3},
		{"metadata", own(&widget{}, &widgetList{}), metadataOf(widgetKind), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			c, err := controllerruntime.NewCache()(serveSorted(t, tc.n), cache.Options{Scheme: tc.scheme, Mapper: mapper})
			check.NoError(t, err)
			ended := make(chan error)
			go func() { ended <- c.Start(ctx) }()
			inf, err := c.GetInformer(ctx, tc.object)
			check.NoError(t, err)
			sharedInformer := inf.(toolscache.SharedIndexInformer)
			if !toolscache.WaitForCacheSync(ctx.Done(), sharedInformer.HasSynced) {
				t.Fatal("not synced")
			}
			check.Equal(t, len(sharedInformer.GetStore().List()), tc.n, "objects")
			if n := decodedGears.Load(); n > 0 {
				t.Errorf("the client decoded %d objects", n)
			}
			cancel()
			check.NoError(t, <-ended)
		})
	}
}
