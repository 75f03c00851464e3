//go:build !weir_safe

package clientgo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// otherKinds is a server of ConfigMaps. Its first WATCH sends objects of other kinds, and then one
// ConfigMap.
type otherKinds struct {
	metadata bool   // send ConfigMaps as metadata
	table    bool   // send a Table among the other objects
	relist   string // if not "", the first WATCH ends with an error and the next LIST returns relist
	lists    atomic.Int32
}

const statedObject = `{"apiVersion":%q,"kind":%q,"metadata":{"namespace":"d","name":%q,"uid":"u-%[3]s","resourceVersion":"%d","labels":{"v":"1"}}}`

func (s *otherKinds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	stated := func(apiVersion, kind, name string, version int) string {
		if s.metadata && kind == "ConfigMap" {
			apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadata"
		}
		return fmt.Sprintf(statedObject, apiVersion, kind, name, version)
	}
	switch query := r.URL.Query(); {
	case query.Has("sendInitialEvents"):
		refuse(w, apierrors.NewBadRequest("no initial events"))
	case query.Has("watch") && query.Get("resourceVersion") == "1":
		for _, event := range []string{
			`{"type":"ADDED","object":` + stated("v1", "Secret", "s", 2) + `}`,
			`{"type":"MODIFIED","object":` + stated("v1", "Secret", "a", 3) + `}`,
			`{"type":"DELETED","object":` + stated("v1", "Secret", "a", 4) + `}`,
			`{"type":"BOOKMARK","object":` + stated("v1", "Secret", "", 6) + `}`,
			s.tables(stated("meta.k8s.io/v1", "Table", "t", 5)),
			`{"type":"ADDED","object":` + stated("v1", "ConfigMap", "z", 7) + `}`,
		} {
			_, _ = fmt.Fprintln(w, event)
		}
		if s.relist != "" {
			status, _ := json.Marshal(statusOf(apierrors.NewResourceExpired("too old")))
			_, _ = fmt.Fprintf(w, `{"type":"ERROR","object":%s}`, status)
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case query.Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case s.lists.Add(1) == 2 && s.relist != "":
		_, _ = fmt.Fprint(w, s.relist)
	default:
		kind, version, items := "ConfigMapList", 1, stated("v1", "ConfigMap", "a", 1)
		apiVersion := "v1"
		if s.metadata {
			apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
		if s.lists.Load() > 1 {
			version, items = 9, items+","+stated("v1", "ConfigMap", "y", 9)
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"},"items":[%s]}`, apiVersion, kind, version, items)
	}
}

// tables returns an event with a Table if s.table is set, otherwise "".
func (s *otherKinds) tables(object string) string {
	if !s.table {
		return ""
	}
	return `{"type":"ADDED","object":` + object + `}`
}

// otherKindInformers build client-go's informers of ConfigMaps in all possible ways.
var otherKindInformers = map[string]func(cfg *rest.Config) cache.SharedIndexInformer{
	"typed": func(cfg *rest.Config) cache.SharedIndexInformer {
		return coreinformers.NewConfigMapInformer(kubernetes.NewForConfigOrDie(cfg), "", 0, nil)
	},
	"typed nil": func(cfg *rest.Config) cache.SharedIndexInformer {
		lw := cache.NewListWatchFromClient(kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient(), "configmaps", "", fields.Everything())
		return cache.NewSharedIndexInformer(lw, (*corev1.ConfigMap)(nil), 0, nil)
	},
	"dynamic": func(cfg *rest.Config) cache.SharedIndexInformer {
		return dynamicinformer.NewFilteredDynamicInformer(dynamic.NewForConfigOrDie(cfg), configMaps, "", 0, nil, nil).Informer()
	},
	"unstructured with a kind": func(cfg *rest.Config) cache.SharedIndexInformer {
		example := &unstructured.Unstructured{}
		example.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		resource := dynamic.NewForConfigOrDie(cfg).Resource(configMaps)
		return cache.NewSharedIndexInformer(listWatchOf(resource), example, 0, nil)
	},
	"metadata": func(cfg *rest.Config) cache.SharedIndexInformer {
		example := &metav1.PartialObjectMetadata{}
		example.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		resource := metadata.NewForConfigOrDie(cfg).Resource(configMaps)
		return cache.NewSharedIndexInformer(listWatchOf(resource), example, 0, nil)
	},
}

// TestObjectsOfOtherKinds checks that Weir's informer skips the events with objects of other kinds
// that client-go's informer skips.
func TestObjectsOfOtherKinds(t *testing.T) {
	for kind, make := range otherKindInformers {
		t.Run(strings.ReplaceAll(kind, " ", "_"), func(t *testing.T) {
			config := func() *rest.Config {
				server := httptest.NewServer(&otherKinds{metadata: kind == "metadata", table: kind == "dynamic" || kind == "unstructured with a kind"})
				t.Cleanup(server.Close)
				return &rest.Config{Host: server.URL, QPS: -1}
			}
			// client-go's metadata client cannot decode objects of other kinds, so want is fixed for it.
			want := "add d/a@1 v=1 initial\nadd d/z@7 v=1"
			if kind != "metadata" {
				want = receivedOfOtherKinds(t, make(config()))
			}
			if kind != "dynamic" && strings.Contains(want, "d/s") {
				t.Fatalf("client-go was told of a Secret:\n%s", want)
			}
			for name, opts := range map[string]Options{"captured": {}, "returned": {NoCapture: true}} {
				if kind == "metadata" && opts.NoCapture {
					continue
				}
				inf := AdoptWithOptions(make(capturing(config())), opts)
				check.Equal(t, receivedOfOtherKinds(t, inf), want, "%s: told", name)
				if captured := inf.(*informer).stats.BodyBytes.Load() > 0; captured == opts.NoCapture {
					t.Errorf("%s: captured is %v", name, captured)
				}
			}
		})
	}
}

// receivedOfOtherKinds returns the events that a handler receives until the ConfigMap that the
// first WATCH sends last.
func receivedOfOtherKinds(t *testing.T, inf cache.SharedIndexInformer) string {
	t.Helper()
	calls := observe(t, inf)
	stop := run(t, inf)
	calls.wait(t, "add d/z@7 v=1")
	stop()
	return calls.sorted()
}

// TestListOfAnotherKind answers a relist with a list of another kind than the informer's. It checks
// that the informer does not store the objects of this list. The typed client decodes the other
// list to a list without a resourceVersion.
func TestListOfAnotherKind(t *testing.T) {
	relist := `{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"8"},"items":[` + fmt.Sprintf(statedObject, "v1", "Secret", "s", 8) + `]}`
	server := httptest.NewServer(&otherKinds{relist: relist})
	t.Cleanup(server.Close)
	inf := Adopt(otherKindInformers["typed"](capturing(&rest.Config{Host: server.URL, QPS: -1})))
	calls := observe(t, inf)
	stop := run(t, inf)
	calls.wait(t, "add d/y@9 v=1")
	stop()
	if got := calls.sorted(); strings.Contains(got, "d/s") || strings.Contains(got, "tombstone d/a") {
		t.Errorf("told:\n%s", got)
	}
}
