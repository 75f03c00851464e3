package weir

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// discoveredWidgets returns a source that must discover the name of a custom resource. The server
// serves the resource under the name in *plural, and answers its LISTs with no items.
func discoveredWidgets(t *testing.T, plural *atomic.Value) *discovered {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch name := plural.Load().(string); r.URL.Path {
		case "/apis/g/v1":
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
				GroupVersion: "g/v1", APIResources: []metav1.APIResource{{Name: name, Kind: "Widget"}},
			})
		case "/apis/g/v1/" + name:
			_, _ = w.Write([]byte(`{"kind":"WidgetList","apiVersion":"g/v1","metadata":{"resourceVersion":"1"},"items":[]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	d, err := newDiscovered(&rest.Config{Host: server.URL}, schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Widget"},
		source.Resource{Encoding: wire.JSON}, source.Options{})
	check.NoError(t, err)
	t.Cleanup(d.CloseIdleConnections)
	return d
}

// TestDiscoveredWithoutName checks that each LIST returns an error if the server reports a resource
// with an empty name.
func TestDiscoveredWithoutName(t *testing.T) {
	var plural atomic.Value
	plural.Store("")
	d := discoveredWidgets(t, &plural)
	for range 2 {
		if _, err := d.List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Fatal("a resource without a name is listed")
		}
	}
}

// TestDiscoveredAgain checks that a source finds the new name of a custom resource that was deleted
// and installed again under another name. The request that fails in between is a LIST or a WATCH
// with initial events.
func TestDiscoveredAgain(t *testing.T) {
	var plural atomic.Value
	plural.Store("widgetry")
	d := discoveredWidgets(t, &plural)
	list := func() error {
		l, err := d.List(t.Context(), metav1.ListOptions{})
		if err == nil {
			err = l.Close()
		}
		return err
	}
	initial := func() error {
		_, err := d.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)})
		return err
	}
	for name, ask := range map[string]func() error{"works": list, "gadgetry": list, "gearing": initial} {
		if err := list(); err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		plural.Store(name)
		if err := ask(); !apierrors.IsNotFound(err) {
			t.Fatalf("%s at first: %v", name, err)
		}
		if err := list(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
