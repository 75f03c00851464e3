package clientgo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// gatedRecorder is a recorder whose calls block until gate is closed.
type gatedRecorder struct {
	*recorder
	gate chan struct{}
}

func (g gatedRecorder) OnAdd(obj any, initial bool) { <-g.gate; g.recorder.OnAdd(obj, initial) }
func (g gatedRecorder) OnUpdate(was, is any)        { <-g.gate; g.recorder.OnUpdate(was, is) }
func (g gatedRecorder) OnDelete(obj any)            { <-g.gate; g.recorder.OnDelete(obj) }

// addLate adds a handler that blocks (late) and a handler that does not block. The returned
// function waits until the handler that does not block has received line, and then lets the late
// handler continue. When the late handler has received line too, the function returns all lines of
// the late handler.
func addLate(t *testing.T, inf cache.SharedIndexInformer, line string) (told func() []string) {
	t.Helper()
	late, first := gatedRecorder{newRecorder(), make(chan struct{})}, newRecorder()
	for _, h := range []cache.ResourceEventHandler{late, first} {
		register(t, inf, h)
	}
	return func() []string {
		t.Helper()
		first.wait(t, line)
		close(late.gate)
		late.wait(t, line)
		return late.all()
	}
}

// TestDeletedTwice creates and deletes two objects of one name while a handler lags. For each
// object, OnDelete must receive the state in the object's DELETED event. The objects have neither
// uids nor resourceVersions, as with fake clientsets.
func TestDeletedTwice(t *testing.T) {
	for which, newInformer := range bothConstructors {
		t.Run(which, func(t *testing.T) {
			events := watch.NewFake()
			inf := newInformer(podSource("1", events), &corev1.Pod{}, 0, nil)
			told := addLate(t, inf, "add d/b@ v=3")
			run(t, inf)
			version := func(name, v string) *corev1.Pod {
				p := pod(name, v)
				p.UID = ""
				return p
			}
			events.Add(version("a", "1"))
			events.Delete(version("a", "1 deleted"))
			events.Add(version("a", "2"))
			events.Delete(version("a", "2 deleted"))
			events.Add(version("b", "3"))

			want := []string{"add d/a@ v=1", "delete d/a@ v=1 deleted", "add d/a@ v=2", "delete d/a@ v=2 deleted", "add d/b@ v=3"}
			if got := told(); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}

// TestDeletedAtOpaqueVersions checks that OnDelete receives the state in the DELETED event if
// resourceVersions are not numbers. If an object is deleted, created and deleted again, each call
// receives the state in the corresponding event.
func TestDeletedAtOpaqueVersions(t *testing.T) {
	const widget = `{"type":"%s","object":{"apiVersion":"shop.example/v1","kind":"Widget","metadata":` +
		`{"namespace":"shop","name":"%s","uid":"u-%[2]s","resourceVersion":"x%[3]d","labels":{"v":"%[3]d"}}}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Has("sendInitialEvents"):
			refuse(w, apierrors.NewBadRequest("no initial events"))
		case query.Has("watch"):
			for i, event := range [][2]string{{"ADDED", "a"}, {"DELETED", "a"}, {"ADDED", "a"}, {"DELETED", "a"}, {"ADDED", "b"}} {
				fmt.Fprintf(w, widget+"\n", event[0], event[1], 1+i)
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, `{"apiVersion":"shop.example/v1","kind":"WidgetList","metadata":{"resourceVersion":"x0"},"items":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	want := []string{"add shop/a@x1 v=1", "delete shop/a@x2 v=2", "add shop/a@x3 v=3", "delete shop/a@x4 v=4", "add shop/b@x5 v=5"}
	for name, make := range map[string]constructor{
		"client-go": newClientGo, "captured": NewSharedIndexInformer, "returned": withOptions(Options{NoCapture: true}),
	} {
		for transform, f := range identityOrNone {
			t.Run(name+"/"+transform, func(t *testing.T) {
				lw := cache.NewListWatchFromClient(widgetClient(t, &rest.Config{Host: server.URL, QPS: -1}), "widgets", "", fields.Everything())
				inf := make(lw, &Widget{}, 0, nil)
				check.NoError(t, inf.SetTransform(f))
				told := addLate(t, inf, want[len(want)-1])
				run(t, inf)
				if got := told(); !slices.Equal(got, want) {
					t.Errorf("told %q, want %q", got, want)
				}
			})
		}
	}
}

// TestDeletedBefore uses resourceVersions that are not numbers. It checks that the deletion of an
// earlier object of the same name does not delete the stored object.
func TestDeletedBefore(t *testing.T) {
	c := newChangingStore(t, Options{})
	held := c.change(t, "a")
	for _, test := range []struct{ uid, want string }{{"another", ""}, {held.UID(), "d/a@x v=9"}} {
		gone := pod("a", "9")
		gone.UID, gone.ResourceVersion = types.UID(test.uid), "x"
		m, raw := received(t, gone)
		told := ""
		for _, ch := range c.changes(func() { check.NoError(t, c.inf.sink.Take(wire.Deleted, m, raw, nil)) }) {
			got, err := c.inf.indexer.reader.deletedValue(&ch)
			check.NoError(t, err)
			told += show(got)
		}
		check.Equal(t, told, test.want, "OnDelete after the end of %s", test.uid)
	}
}

// TestDeletedByName uses a server whose DELETED events contain only a name, as OpenShift's DELETED
// events of projects do. It checks that OnDelete receives the same objects as with client-go.
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
		"client-go": newClientGo,
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
