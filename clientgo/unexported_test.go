package clientgo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// gadget is a custom resource. Its spec may have unexported fields, like a protobuf message or a
// time.Time.
type gadget[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec S `json:"spec"`
}

type gadgetList[S any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []gadget[S] `json:"items"`
}

func (g *gadget[S]) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *gadgetList[S]) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*gadget[S]))
	}
	return &c
}

// sizedSpec has an unexported size, as protobuf messages have.
type sizedSpec struct {
	A    string `json:"a"`
	size int32
}

// timedSpec has a time.Time. Kubernetes' types have a metav1.Time instead.
type timedSpec struct {
	A  string    `json:"a"`
	At time.Time `json:"at"`
}

// TestUnexportedFields checks the events and the stored objects of a type with unexported fields,
// which equality.Semantic cannot compare. The informer uses the objects that the ListerWatcher
// returns, or captures them and calls a transform.
func TestUnexportedFields(t *testing.T) {
	t.Run("size", func(t *testing.T) {
		testUnexportedFields(t, func(a string) sizedSpec { return sizedSpec{a, 7} })
	})
	t.Run("time", func(t *testing.T) {
		testUnexportedFields(t, func(a string) timedSpec { return timedSpec{a, time.Unix(7, 8)} })
	})
}

func testUnexportedFields[S any](t *testing.T, spec func(string) S) {
	gadgets := gadgetScheme[S]()
	for name, make := range map[string]constructor{
		"client-go":                newClientGo,
		"weir":                     withOptions(Options{Scheme: gadgets}),
		"weir, detecting mutation": withOptions(Options{Scheme: gadgets, DetectMutation: true}),
	} {
		t.Run(name+"/returned", func(t *testing.T) {
			t.Parallel()
			source := newFakeSource(t)
			tellOfGadgets(t, source, make(source, &gadget[S]{}, 0, cache.Indexers{}), spec, true)
		})
		t.Run(name+"/transformed", func(t *testing.T) {
			t.Parallel()
			source := newFakeSource(t)
			inf := make(gadgetsOf[S](t, source, gadgets), &gadget[S]{}, 0, cache.Indexers{})
			check.NoError(t, inf.SetTransform(identity))
			tellOfGadgets(t, source, inf, spec, false)
		})
	}
}

// tellOfGadgets adds, changes, lists again and deletes a gadget, and checks the events. whole is
// true if the informer receives the unexported fields too.
func tellOfGadgets[S any](t *testing.T, source fakeSource, inf cache.SharedIndexInformer, spec func(string) S, whole bool) {
	gadgetOf := func(name, v string) *gadget[S] {
		g := &gadget[S]{ObjectMeta: pod(name, v).ObjectMeta, Spec: spec(v)}
		g.SetGroupVersionKind(widgetVersion.WithKind("Gadget"))
		return g
	}
	s := &recordedInformer{source: source, informer: inf, calls: newRecorder()}
	var err error
	if s.registration, err = inf.AddEventHandler(s.calls); err != nil {
		t.Fatal(err)
	}
	source.Add(gadgetOf("a", "1"))
	s.start(t)
	source.Modify(gadgetOf("a", "2"))
	s.calls.wait(t, "update d/a@1 v=1 -> d/a@2 v=2")
	source.ModifyDropWatch(gadgetOf("a", "3"))
	source.ResetWatch()
	s.calls.wait(t, "update d/a@2 v=2 -> d/a@3 v=3")
	source.watches.wait(t)
	source.AddDropWatch(gadgetOf("b", "1"))
	source.ResetWatch() // the list contains gadget a unchanged
	s.calls.wait(t, "add d/b@4 v=1")
	source.watches.wait(t)
	if held, _, err := inf.GetStore().GetByKey("d/a"); err != nil || whole && !reflect.DeepEqual(held.(*gadget[S]).Spec, spec("3")) {
		t.Errorf("holds %v, %v", held, err)
	}
	source.Delete(gadgetOf("a", "3"))
	s.calls.wait(t, "delete d/a@5 v=3")
	s.stop()
	want := "add d/a@1 v=1 initial\nadd d/b@4 v=1\ndelete d/a@5 v=3\nupdate d/a@1 v=1 -> d/a@2 v=2\nupdate d/a@2 v=2 -> d/a@3 v=3"
	check.Equal(t, withoutUnchanged(s.calls.sorted()), want, "told")
}

func gadgetScheme[S any]() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(widgetVersion.WithKind("Gadget"), &gadget[S]{})
	s.AddKnownTypeWithName(widgetVersion.WithKind("GadgetList"), &gadgetList[S]{})
	metav1.AddToGroupVersion(s, widgetVersion)
	return s
}

// gadgetsOf starts a server with the gadgets of a source. It returns the ListerWatcher of a client
// of that server whose config was passed to Wrap.
func gadgetsOf[S any](t *testing.T, source fakeSource, gadgets *runtime.Scheme) cache.ListerWatcher {
	t.Helper()
	server := httptest.NewServer(sourceServer{source})
	t.Cleanup(server.Close)
	cfg := capturing(&rest.Config{Host: server.URL, QPS: -1})
	cfg.APIPath, cfg.GroupVersion = "/apis", &widgetVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(gadgets).WithoutConversion()
	client, err := rest.RESTClientFor(cfg)
	check.NoError(t, err)
	return cache.NewListWatchFromClient(client, "gadgets", "", fields.Everything())
}

// sourceServer is a server that answers LISTs and WATCHes with a source's objects.
type sourceServer struct{ fakeSource }

func (s sourceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case query.Has("sendInitialEvents"):
		refuse(w, apierrors.NewBadRequest("no initial events"))
	case query.Has("watch"):
		s.serveWatch(w, r)
	default:
		got, err := s.List(metav1.ListOptions{})
		if err != nil {
			refuse(w, apierrors.NewInternalError(err))
			return
		}
		list := got.(*corev1.List)
		list.SetGroupVersionKind(widgetVersion.WithKind("GadgetList"))
		_ = json.NewEncoder(w).Encode(list) // the client may have disconnected
	}
}

func (s sourceServer) serveWatch(w http.ResponseWriter, r *http.Request) {
	events, err := s.Watch(metav1.ListOptions{ResourceVersion: r.URL.Query().Get("resourceVersion")})
	if err != nil {
		refuse(w, err)
		return
	}
	defer source.StopWatch(events)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": event.Type, "object": event.Object})
			w.(http.Flusher).Flush()
		}
	}
}

// refuse answers a request with the status of an error.
func refuse(w http.ResponseWriter, err error) {
	if _, ok := err.(apierrors.APIStatus); !ok {
		err = apierrors.NewInternalError(err)
	}
	status := statusOf(err)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
