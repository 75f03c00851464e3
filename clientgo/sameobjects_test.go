package clientgo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// unusualPod and unusualGadget are JSON objects, without their kind, that a re-encoded object would
// not reproduce: they have empty slices and maps, times in other zones, and quantities that are not
// in canonical form.
const (
	unusualPod = `"metadata":{"name":%q,"namespace":"d","resourceVersion":"%d","uid":"u","annotations":{},
		"creationTimestamp":"2026-01-02T03:04:05+02:00"},
		"spec":{"tolerations":[],"containers":[{"name":"c","args":[],"resources":{"requests":{"cpu":"1000m","memory":"0.5Gi"},"limits":{}}}],
		"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1024Mi"}}]},"status":{"startTime":"2026-01-02T03:04:05Z"}`
	unusualGadget = `"metadata":{"name":%q,"namespace":"d","resourceVersion":"%d","uid":"u","labels":{}},
		"spec":{"names":[],"size":"1000m","at":"2026-01-02T03:04:05+02:00"}`
)

// unusualSpec is the spec of a custom resource.
type unusualSpec struct {
	Names []string          `json:"names,omitempty"`
	Size  resource.Quantity `json:"size"`
	At    metav1.Time       `json:"at"`
}

// unusualServer returns a server whose list contains one object. Its watches add a second object,
// change the first, and delete a third one that they never sent. Items of lists state their kind
// only if itemsHaveKind is true.
func unusualServer(kind schema.GroupVersionKind, object string, itemsHaveKind bool) http.HandlerFunc {
	stated := func(name string, version int, withKind bool) string {
		members := fmt.Sprintf(object, name, version)
		if withKind {
			members = fmt.Sprintf(`"apiVersion":%q,"kind":%q,%s`, kind.GroupVersion(), kind.Kind, members)
		}
		return "{" + strings.ReplaceAll(members, "\n", "") + "}"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Has("sendInitialEvents"):
			refuse(w, apierrors.NewBadRequest("no initial events"))
		case query.Has("watch"):
			if query.Get("resourceVersion") == "1" {
				_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}{"type":"MODIFIED","object":%s}{"type":"DELETED","object":%s}`,
					stated("b", 2, true), stated("a", 3, true), stated("c", 4, true))
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`,
				kind.GroupVersion(), kind.Kind+"List", stated("a", 1, itemsHaveKind))
		}
	}
}

// TestSameObjects compares the objects that handlers and readers receive from client-go's informer
// and from Weir's with reflect.DeepEqual. The informers capture the responses or do not, and have a
// transform or not.
func TestSameObjects(t *testing.T) {
	gadgets := gadgetScheme[unusualSpec]()
	for name, test := range map[string]struct {
		example runtime.Object
		kind    schema.GroupVersionKind
		scheme  *runtime.Scheme
		json    string
	}{
		"pods":    {&corev1.Pod{}, corev1.SchemeGroupVersion.WithKind("Pod"), scheme.Scheme, unusualPod},
		"gadgets": {&gadget[unusualSpec]{}, widgetVersion.WithKind("Gadget"), gadgets, unusualGadget},
	} {
		custom := test.scheme == gadgets
		server := httptest.NewServer(unusualServer(test.kind, test.json, custom))
		t.Cleanup(server.Close)
		for how, transform := range identityOrNone {
			for _, captures := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/captured %t", name, how, captures), func(t *testing.T) {
					received := map[string]map[string]runtime.Object{}
					for maker, make := range map[string]constructor{"client-go": newClientGo, "weir": withOptions(Options{Scheme: test.scheme})} {
						cfg := &rest.Config{Host: server.URL, QPS: -1, APIPath: "/apis"}
						version := test.kind.GroupVersion()
						cfg.GroupVersion, cfg.NegotiatedSerializer = &version, serializer.NewCodecFactory(test.scheme).WithoutConversion()
						if captures {
							cfg = capturing(cfg)
						}
						client, err := rest.RESTClientFor(cfg)
						check.NoError(t, err)
						inf := make(noWatchList{cache.NewListWatchFromClient(client, "things", "", fields.Everything())}, test.example, 0, cache.Indexers{})
						check.NoError(t, inf.SetTransform(transform))
						received[maker] = collect(t, inf, custom)
					}
					for what, want := range received["client-go"] {
						if got := received["weir"][what]; !reflect.DeepEqual(got, want) {
							t.Errorf("%s: got %#v\nwant %#v", what, got, want)
						}
					}
					if len(received["client-go"]) != 6 {
						t.Errorf("client-go's informer delivers %d objects, want 6", len(received["client-go"]))
					}
				})
			}
		}
	}
}

// collect runs an informer until its handler has received the objects of unusualServer. It returns
// the objects that the handler received and the objects that are stored. If custom is true, it
// clears their kinds: client-go's typed clients do so only in watch events.
func collect(t *testing.T, inf cache.SharedIndexInformer, custom bool) map[string]runtime.Object {
	t.Helper()
	objects := map[string]runtime.Object{}
	note := func(what string, obj any) {
		object := obj.(runtime.Object)
		if custom {
			object = object.DeepCopyObject()
			object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		objects[what+" "+show(obj)] = object
	}
	var mu sync.Mutex
	done := make(chan struct{})
	register(t, inf, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			note("added", obj)
		},
		UpdateFunc: func(_, obj any) {
			mu.Lock()
			defer mu.Unlock()
			note("updated", obj)
		},
		DeleteFunc: func(obj any) {
			mu.Lock()
			defer mu.Unlock()
			note("deleted", obj)
			close(done)
		},
	})
	stop := runSynced(t, inf)
	<-done
	stop()
	for _, obj := range inf.GetStore().List() {
		note("stored", obj)
	}
	return objects
}
