package clientgo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestDeletedByName: a server reports a deletion by an object that has only a name, as OpenShift
// does for projects. OnDelete receives the same as from client-go.
func TestDeletedByName(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const widget = `"apiVersion":"shop.example/v1","kind":"Widget","metadata":{"namespace":"shop","name":"%s"%s}`
		full := func(name string) string {
			return fmt.Sprintf(widget, name, `,"uid":"u-`+name+`","resourceVersion":"7"`)
		}
		switch query := r.URL.Query(); {
		case query.Has("sendInitialEvents"):
			refuse(w, apierrors.NewBadRequest("no initial events"))
		case query.Has("watch"):
			fmt.Fprintf(w, `{"type":"ADDED","object":{%s}}`+"\n", full("b"))
			for _, name := range []string{"a", "b", "c"} {
				fmt.Fprintf(w, `{"type":"DELETED","object":{%s}}`+"\n", fmt.Sprintf(widget, name, ""))
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"apiVersion":"shop.example/v1","kind":"WidgetList","metadata":{"resourceVersion":"6"},"items":[{%s}]}`, full("a"))
		}
	}))
	t.Cleanup(server.Close)
	cfg := &rest.Config{Host: server.URL, QPS: -1}
	for name, make := range map[string]constructor{
		"client-go": cache.NewSharedIndexInformer,
		"captured":  NewSharedIndexInformer,
		"returned":  withOptions(Options{NoCapture: true}),
	} {
		for transform, f := range identityOrNone {
			t.Run(name+"/"+transform, func(t *testing.T) {
				lw := cache.NewListWatchFromClient(widgetClient(t, cfg), "widgets", "", fields.Everything())
				inf, calls := make(lw, &Widget{}, 0, nil), newRecorder()
				check.NoError(t, inf.SetTransform(f))
				register(t, inf, calls)
				run(t, inf)
				calls.wait(t, "delete shop/a@ v=")
				calls.wait(t, "delete shop/b@ v=")
				if keys := inf.GetStore().ListKeys(); len(keys) > 0 {
					t.Errorf("holds %q", keys)
				}
			})
		}
	}
}
