//go:build !weir_safe

package weir

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestSharedListWatch checks that each option of ListWatch and Backoff is a part of the share key.
func TestSharedListWatch(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	seen := []*shared{acquired(t, f, Options{}).shared}
	unlike := func(name string, opts Options) {
		l, same := acquired(t, f, opts), acquired(t, f, opts)
		if l.shared != same.shared {
			t.Errorf("%s: two users of one value do not share an informer", name)
		}
		if slices.Contains(seen, l.shared) {
			t.Errorf("%s is ignored", name)
		}
		seen = append(seen, l.shared)
	}
	var set func(v reflect.Value, with func(reflect.Value) Options, path string)
	set = func(v reflect.Value, with func(reflect.Value) Options, path string) {
		for _, field := range reflect.VisibleFields(v.Type()) {
			value := reflect.New(v.Type()).Elem()
			to := value.FieldByIndex(field.Index)
			switch to.Kind() {
			case reflect.Struct:
				set(to, func(inner reflect.Value) Options { to.Set(inner); return with(value) }, path+"."+field.Name)
				continue
			case reflect.Func:
				one := func() float64 { return 0 }
				to.Set(reflect.ValueOf(one))
			case reflect.Uint8:
				to.SetUint(1)
			default:
				to.SetInt(1)
			}
			unlike(path+"."+field.Name, with(value))
		}
	}
	set(reflect.ValueOf(ListWatch{}), func(v reflect.Value) Options { return Options{ListWatch: v.Interface().(ListWatch)} }, "ListWatch")
}

// TestSharedDecodedUnasked checks that the objects of a user without ShareDecoded share nothing
// with each other, even if another user of the factory has set ShareDecoded.
func TestSharedDecodedUnasked(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	asked, unasked := acquired(t, f, Options{ShareDecoded: true}), acquired(t, f, Options{})
	for l, want := range map[*SharedInformer[*corev1.Pod]]bool{asked: true, unasked: false} {
		distinct := map[*corev1.Toleration]bool{}
		for n := range 8 {
			name := string(rune('a' + n))
			put(t, l, name)
			p, err := l.Get("d/" + name)
			check.NoError(t, err)
			distinct[&p.Spec.Tolerations[0]] = true
		}
		if got := len(distinct) < 8; got != want {
			t.Errorf("ShareDecoded %v: 8 objects have %d tolerations", want, len(distinct))
		}
	}
}

// TestDiscoveredConnections checks that a source sends all its discovery requests and its WATCH on
// one connection, even if the config has a Proxy function. client-go shares no transport between
// clients of such a config.
func TestDiscoveredConnections(t *testing.T) {
	var connections atomic.Int64
	var known atomic.Bool
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !known.Load():
			http.NotFound(w, r)
		case r.URL.Path == "/apis/x.example/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"x.example/v1","resources":[{"name":"gearing","kind":"Gear"}]}`))
		case r.URL.Path != "/apis/x.example/v1/gearing":
			t.Errorf("asked for %s", r.URL.Path)
		}
	}))
	srv.EnableHTTP2 = true
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.StartTLS()
	defer srv.Close()
	cfg := &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	gvk := schema.GroupVersionKind{Group: "x.example", Version: "v1", Kind: "Gear"}
	d, err := newDiscovered(cfg, gvk, source.Resource{Encoding: wire.JSON}, source.Options{})
	check.NoError(t, err)
	defer d.CloseIdleConnections()
	for range 10 {
		if _, err := d.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	known.Store(true)
	watch, err := d.Watch(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	_ = watch.Close()
	check.Equal(t, connections.Load(), 1, "connections")
}
