package watchcache

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// answersOf creates a cache with one object. It returns the responses of the cache to a GET and to
// a LIST, in the media type accept.
func answersOf(t *testing.T, r Resource, enc wire.Encoding, raw []byte, accept string) (object, list string) {
	t.Helper()
	st := store.New(store.Config{Encoding: enc, KeepLog: true})
	defer st.Close()
	w := st.Writer(store.Scope{})
	w.BeginReplace(false)
	var m wire.Meta
	check.NoError(t, wire.ReadMeta(enc, raw, &m))
	check.NoError(t, w.Put(&m, raw))
	w.EndReplace("7")
	c, err := New(Config{Resource: r, Store: st, Encoding: enc})
	check.NoError(t, err)
	defer c.Close()
	rec := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "/?resourceVersion=0", nil)
	req.Header.Set("Accept", accept)
	serveGet(c, rec, req, string(m.Namespace), string(m.Name))
	object = rec.Body.String()
	rec = httptest.NewRecorder()
	req.Header.Set("Accept", strings.Replace(accept, "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;", 1))
	serveList(c, rec, req, "", "")
	return object, rec.Body.String()
}

const metadataJSON = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// TestNestedKinds checks that each of a StatefulSet's volumeClaimTemplates states its kind in JSON.
// Protobuf cannot store that kind.
func TestNestedKinds(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop", ResourceVersion: "5"},
		Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
			{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, {ObjectMeta: metav1.ObjectMeta{Name: "log"}},
		}},
	}
	raw, err := codec.Marshal(wire.Protobuf, set)
	check.NoError(t, err)
	r := Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("statefulsets"), Kind: "StatefulSet", Namespaced: true, Type: reflect.TypeFor[appsv1.StatefulSet]()}
	object, list := answersOf(t, r, wire.Protobuf, raw, "application/json")
	for _, body := range []string{object, list} {
		if n := strings.Count(body, `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{`); n != 2 || !strings.HasSuffix(body, "}\n") {
			t.Errorf("%d of 2 claims have their kind: %s", n, body)
		}
	}
}

// Some API versions lack fields, and store their values in annotations. TestConvertedAnnotations
// checks that responses with only metadata lack these annotations.
func TestConvertedAnnotations(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Name: "agent", Namespace: "shop", ResourceVersion: "5",
		Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "3", "own": "yes"},
	}}
	raw, err := codec.Marshal(wire.Protobuf, set)
	check.NoError(t, err)
	r := Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("daemonsets"), Kind: "DaemonSet", Namespaced: true, Type: reflect.TypeFor[appsv1.DaemonSet]()}
	for accept, want := range map[string]bool{
		"application/json": true, metadataJSON: false,
		"application/vnd.kubernetes.protobuf": true, strings.Replace(metadataJSON, "json", "vnd.kubernetes.protobuf", 1): false,
	} {
		object, list := answersOf(t, r, wire.Protobuf, raw, accept)
		for _, body := range []string{object, list} {
			if strings.Contains(body, appsv1.DeprecatedTemplateGeneration) != want || !strings.Contains(body, "own") {
				t.Errorf("%s: the annotation is there: %v: %q", accept, !want, body)
			}
		}
	}
}

// TestKindsOfListItems checks that objects of built-in kinds state their kind in GETs and events,
// and not in lists.
func TestKindsOfListItems(t *testing.T) {
	const members = `"metadata":{"name":"a","resourceVersion":"5"},"spec":{"kind":"x"}}`
	own := `{"kind":"Thing","apiVersion":"example.com/v1",` + members
	for _, raw := range []string{own, "{" + members} {
		r := things
		object, list := answersOf(t, r, wire.JSON, []byte(raw), "application/json")
		if object != own+"\n" || !strings.HasSuffix(list, `"items":[{`+members+"]}\n") {
			t.Errorf("stored %s:\n%s\n%s", raw, object, list)
		}
		r.Custom = true
		if _, list = answersOf(t, r, wire.JSON, []byte(raw), "application/json"); !strings.HasPrefix(list, `{"apiVersion":"example.com/v1","items":[`+raw+`],"kind":"ThingList"`) {
			t.Errorf("a custom resource, stored %s: %s", raw, list)
		}
	}
}
