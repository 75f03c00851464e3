package proxy

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const (
	// semanticsNamespace is the namespace of the objects that the compared requests read.
	semanticsNamespace = "semantics"
	widgetGroup        = "semantics.weir.dev"
)

var (
	podResource    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	widgetResource = schema.GroupVersionResource{Group: widgetGroup, Version: "v1", Resource: "widgets"}
	definitions    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world describes the objects of one resource, and their changes.
type world struct {
	gvr       schema.GroupVersionResource
	objects   dynamic.ResourceInterface
	then, now uint64 // then: after the objects were created; now: after the changes
}

func (w *world) path() string {
	if w.gvr.Group == "" {
		return "/api/v1/namespaces/" + semanticsNamespace + "/" + w.gvr.Resource
	}
	return "/apis/" + w.gvr.GroupVersion().String() + "/namespaces/" + semanticsNamespace + "/" + w.gvr.Resource
}

// fill replaces the placeholders in the path or query of a request.
func (w *world) fill(text string, s *server) string {
	group, kind := "", "Pod"
	if w.gvr == widgetResource {
		group, kind = widgetGroup, "Widget"
	}
	ahead := fmt.Sprint(w.now + 1_000_000)
	many := podsim.New(pods, 1).Apps()[:3] // about 60 pods
	maker := ""
	if page, err := base64.RawURLEncoding.DecodeString(s.page[w.gvr.Resource]); err == nil && strings.Contains(string(page), ownToken) {
		maker = "," + ownToken
	}
	return strings.NewReplacer(
		"{then}", fmt.Sprint(w.then), "{now}", fmt.Sprint(w.now), "{ahead}", ahead, "{group}", group, "{kind}", kind,
		"{page}", s.page[w.gvr.Resource], "{low}", shardText("uid", 0, 2), "{high}", shardText("uid", 1, 2),
		"{both}", shardText("uid", 0, 2)+"%7C%7C"+shardText("uid", 1, 2), "{home}", shardText("namespace", 0, 1), "{many}", url.QueryEscape("app in ("+strings.Join(many, ",")+")"),
		"{token of ahead}", forge(`{"v":"meta.k8s.io/v1","rv":`+ahead+`,"start":"b"`+maker+`}`),
		"{own token of nothing}", forge(`{"v":"meta.k8s.io/v1","rv":0,"start":"b"`+maker+`}`),
		"{token of nothing}", forge(`{"v":"meta.k8s.io/v1","rv":0,"start":"b"}`),
		"{token without start}", forge(`{"v":"meta.k8s.io/v1","rv":`+fmt.Sprint(w.now)+`,"start":""}`),
		"{token of another format}", forge(`{"v":"v7","rv":1,"start":"b"}`),
		"{token upwards}", forge(`{"v":"meta.k8s.io/v1","rv":`+fmt.Sprint(w.now)+`,"start":"../../secrets/a"}`),
	).Replace(text)
}

func forge(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// ownToken is a part of the proxy's continue tokens, which kube-apiserver's tokens do not have.
const ownToken = `"by":"weir.dev"`

// newWorld creates the objects a to e. It then changes a label of b and an annotation of a, deletes
// c, and creates f.
func newWorld(t *testing.T, ctx context.Context, client dynamic.Interface, gvr schema.GroupVersionResource) *world {
	t.Helper()
	w := &world{gvr: gvr, objects: client.Resource(gvr).Namespace(semanticsNamespace)}
	made := []string{"a", "b", "c", "d", "e"}
	for i, name := range made {
		w.then = w.create(t, ctx, name, i)
	}
	patch := func(name, body string) {
		t.Helper()
		if _, err := w.objects.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch("b", `{"metadata":{"labels":{"color":"blue"}}}`)
	patch("a", `{"metadata":{"annotations":{"seen":"yes"}}}`)
	check.NoError(t, w.objects.Delete(ctx, "c", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	w.now = w.create(t, ctx, "f", len(made))
	return w
}

// create creates the i-th object. Objects with an odd number are red, and the others blue.
func (w *world) create(t *testing.T, ctx context.Context, name string, i int) (rv uint64) {
	t.Helper()
	labels := map[string]any{"color": []string{"blue", "red"}[i%2], "n": fmt.Sprint(i)}
	if i == 3 {
		labels["special"] = ""
	}
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "labels": labels}}}
	if w.gvr == podResource {
		o.SetAPIVersion("v1")
		o.SetKind("Pod")
		o.Object["spec"] = map[string]any{
			"automountServiceAccountToken": false,
			"containers":                   []any{map[string]any{"name": "c", "image": "i"}},
		}
		if i%2 == 1 {
			o.Object["spec"].(map[string]any)["nodeName"] = "node-1"
			o.Object["spec"].(map[string]any)["restartPolicy"] = "Never"
		}
	} else {
		o.SetAPIVersion(w.gvr.GroupVersion().String())
		o.SetKind("Widget")
		o.Object["spec"] = map[string]any{"color": labels["color"], "size": int64(i)}
	}
	made, err := w.objects.Create(ctx, o, metav1.CreateOptions{})
	check.NoError(t, err)
	if rv, err = strconv.ParseUint(made.GetResourceVersion(), 10, 64); err != nil {
		t.Fatal(err)
	}
	return rv
}

// makeNamespace creates the test's namespace. It deletes the pods in the namespace when the test
// ends.
func makeNamespace(t *testing.T, ctx context.Context, client dynamic.Interface) {
	t.Helper()
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	ns := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": semanticsNamespace}}}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	if _, err := namespaces.Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() { // no controller deletes the contents of a namespace
		grace := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		if err := client.Resource(podResource).Namespace(semanticsNamespace).DeleteCollection(context.WithoutCancel(ctx), grace, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// define creates the CustomResourceDefinition of widgets, and deletes it when the test ends.
func define(t *testing.T, ctx context.Context, client dynamic.Interface) {
	t.Helper()
	text := func(kind string) map[string]any { return map[string]any{"type": kind} }
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets." + widgetGroup},
		"spec": map[string]any{
			"group": widgetGroup, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"selectableFields": []any{map[string]any{"jsonPath": ".spec.color"}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec": map[string]any{"type": "object", "properties": map[string]any{"color": text("string"), "size": text("integer")}},
				}}},
			}},
		},
	}}
	if _, err := client.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := client.Resource(definitions).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		// The next test creates the definition again.
		testenv.Eventually(t, ctx, "the definition is gone", func() bool {
			_, err := client.Resource(definitions).Get(ctx, crd.GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
	testenv.Eventually(t, ctx, "the custom resource is served", func() bool {
		_, err := client.Resource(widgetResource).List(ctx, metav1.ListOptions{})
		return err == nil
	})
}

// dynamicFor returns a client whose idle connections are closed when the test ends.
func dynamicFor(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(shared.Config(), cluster.HTTPClient(t, shared.Config()))
	check.NoError(t, err)
	return client
}

// settle waits until a server has all changes of the world.
func (s *server) settle(t *testing.T, ctx context.Context, w *world) {
	t.Helper()
	testenv.Eventually(t, ctx, s.url+" has every change to "+w.gvr.Resource, func() bool {
		var a answer
		if _, err := s.once(ctx, &row{}, w, "resourceVersion={now}&resourceVersionMatch=NotOlderThan", &a); err != nil {
			t.Fatal(err)
		}
		return a.Code == http.StatusOK
	})
}

// readPage reads a first page, and stores its continue token for {page}.
func (s *server) readPage(t *testing.T, ctx context.Context, w *world) {
	t.Helper()
	var a answer
	body, err := s.once(ctx, &row{}, w, "resourceVersion={now}&resourceVersionMatch=Exact&limit=2", &a)
	check.NoError(t, err)
	meta, _ := body["metadata"].(map[string]any)
	if s.page[w.gvr.Resource], _ = meta["continue"].(string); s.page[w.gvr.Resource] == "" {
		t.Fatalf("%s: %d %v", s.url, a.Code, body)
	}
}
