package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

var ctx = context.Background()

// TestObjectLife checks the metadata that the server sets when an object is created, updated and
// deleted, with a JSON and a protobuf client.
func TestObjectLife(t *testing.T) {
	for _, encoding := range []string{"json", "protobuf"} {
		t.Run(encoding, func(t *testing.T) {
			withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
				client := ts.typed
				if encoding == "protobuf" {
					client = ts.protobuf
				}
				deployments := client.AppsV1().Deployments("default")
				d := createDeployment(t, ts, deployments)
				updateDeployment(t, deployments, d)
				if err := deployments.Delete(ctx, "web", *metav1.NewPreconditionDeleteOptions("another")); !apierrors.IsConflict(err) {
					t.Errorf("delete of another uid: %v", err)
				}
				if err := deployments.Delete(ctx, "web", *metav1.NewPreconditionDeleteOptions(string(d.UID))); err != nil {
					t.Errorf("delete: %v", err)
				}
				if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("deleted again: %v", err)
				}
				d.ResourceVersion = ""
				if _, err := deployments.Update(ctx, d, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("update of nothing: %v", err)
				}
			})
		})
	}
}

// createDeployment creates a deployment, and checks the fields that the server sets.
func createDeployment(t *testing.T, ts *testServer, deployments typedappsv1.DeploymentInterface) *appsv1.Deployment {
	t.Helper()
	d, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 77, UID: "mine"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Paused: true},
		Status:     appsv1.DeploymentStatus{Replicas: 5},
	}, metav1.CreateOptions{})
	check.NoError(t, err)
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !uuid.MatchString(string(d.UID)) || d.CreationTimestamp.IsZero() || d.Generation != 1 || d.Namespace != "default" ||
		d.ResourceVersion != fmt.Sprint(ts.server.ResourceVersion()) || d.Status.Replicas != 0 || *d.Spec.Replicas != 2 {
		t.Errorf("created: %+v", d)
	}
	if _, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created again: %v", err)
	}
	return d
}

// updateDeployment updates a deployment, and then its status. It checks what each update changes.
func updateDeployment(t *testing.T, deployments typedappsv1.DeploymentInterface, d *appsv1.Deployment) {
	t.Helper()
	d = d.DeepCopy()
	// The server must store the new spec, and ignore the new status and generation.
	d.Spec.Replicas, d.Status.Replicas, d.Generation = new(int32(3)), 9, 50
	first := d.ResourceVersion
	updated, err := deployments.Update(ctx, d, metav1.UpdateOptions{})
	check.NoError(t, err)
	if updated.Generation != 2 || *updated.Spec.Replicas != 3 || updated.Status.Replicas != 0 || updated.ResourceVersion == first {
		t.Errorf("updated: %+v", updated)
	}
	// The server must store the new status, and ignore the other changes.
	updated.Status.Replicas, updated.Spec.Replicas, updated.Labels = 3, new(int32(99)), map[string]string{"a": "b"}
	status, err := deployments.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	check.NoError(t, err)
	if status.Generation != 2 || *status.Spec.Replicas != 3 || status.Status.Replicas != 3 || status.Labels != nil {
		t.Errorf("status updated: %+v", status)
	}
	// The resourceVersion is old, as after an update by another client.
	d.ResourceVersion = first
	if _, err := deployments.Update(ctx, d, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	// Nothing changes: no event, no new resourceVersion.
	same, err := deployments.Update(ctx, status, metav1.UpdateOptions{})
	if err != nil || same.ResourceVersion != status.ResourceVersion {
		t.Errorf("an update of nothing: %v, %s after %s", err, same.ResourceVersion, status.ResourceVersion)
	}
	// Without a resourceVersion an update is unconditional.
	same.ResourceVersion, same.Labels = "", map[string]string{"a": "b"}
	if same, err = deployments.Update(ctx, same, metav1.UpdateOptions{}); err != nil || same.Generation != 2 {
		t.Errorf("unconditional update: %v", err)
	}
}

func TestGenerateName(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		seen := map[string]bool{}
		long := strings.Repeat("x", 100)
		for range 20 {
			for _, base := range []string{"job-", long} {
				cm, err := ts.typed.CoreV1().ConfigMaps("default").Create(ctx,
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: base}}, metav1.CreateOptions{})
				check.NoError(t, err)
				if seen[cm.Name] || cm.GenerateName != base || len(cm.Name) > 63 || !strings.HasPrefix(cm.Name, base[:4]) {
					t.Errorf("name %q", cm.Name)
				}
				seen[cm.Name] = true
			}
		}
	})
}

func TestFinalizers(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		maps := ts.protobuf.CoreV1().ConfigMaps("default")
		cm, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"x.io/y"}}}, metav1.CreateOptions{})
		check.NoError(t, err)
		w := ts.watch(configMaps + "?watch=1&resourceVersion=" + cm.ResourceVersion)
		defer w.close()
		for range 2 { // the second DELETE finds an object that is being deleted
			check.NoError(t, maps.Delete(ctx, "a", metav1.DeleteOptions{}))
		}
		waiting, err := maps.Get(ctx, "a", metav1.GetOptions{})
		if err != nil || waiting.DeletionTimestamp == nil || *waiting.DeletionGracePeriodSeconds != 0 {
			t.Fatalf("waiting: %v %+v", err, waiting)
		}
		check.Equal(t, w.next(), "MODIFIED a@"+waiting.ResourceVersion)
		released := waiting.DeepCopy()
		released.Finalizers, released.DeletionTimestamp = nil, nil // must not undo the deletion
		if _, err := maps.Update(ctx, released, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		check.Equal(t, w.next(), fmt.Sprintf("DELETED a@%d", ts.server.ResourceVersion()))
		if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("still there: %v", err)
		}
	})
}

func TestDryRun(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		ts.configMap("a", nil)
		before := ts.server.ResourceVersion()
		maps := ts.typed.CoreV1().ConfigMaps("default")
		all := []string{metav1.DryRunAll}
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{DryRun: all}); err != nil {
			t.Error(err)
		}
		cm, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"x":"y"}}`), metav1.PatchOptions{DryRun: all})
		if err != nil || cm.Data["x"] != "y" {
			t.Errorf("%v %v", err, cm)
		}
		if err := maps.Delete(ctx, "a", metav1.DeleteOptions{DryRun: all}); err != nil {
			t.Error(err)
		}
		if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if ts.server.ResourceVersion() != before {
			t.Error("something was written")
		}
	})
}

func TestDeleteCollection(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for i := range 6 {
			ts.configMap(fmt.Sprintf("cm-%d", i), map[string]string{"odd": fmt.Sprint(i % 2)})
		}
		maps := ts.protobuf.CoreV1().ConfigMaps("default")
		check.NoError(t, maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=1", FieldSelector: "metadata.name!=cm-3"}))
		left, err := maps.List(ctx, metav1.ListOptions{})
		if err != nil || listed(left) != "cm-0 cm-2 cm-3 cm-4" {
			t.Errorf("%v, left: %s", err, listed(left))
		}
		if a := ts.do(http.MethodDelete, configMaps+"?labelSelector=a%20in", nil); a.code != 400 {
			t.Errorf("a broken selector: %d", a.code)
		}
	})
}

// TestWritesAcrossNamespaces checks that the server refuses writes to the collection of all
// namespaces, which can only be read.
func TestWritesAcrossNamespaces(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		ts.configMap("kept", nil)
		defineWidgets(t, ts)
		if _, err := ts.dynamic.Resource(widgets).Namespace("default").Create(ctx, widget("red", "red"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		before := ts.server.ResourceVersion()
		const refused = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
			`"message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}`
		for _, method := range []string{http.MethodDelete, http.MethodPost, http.MethodPut, http.MethodPatch} {
			if a := ts.do(method, "/api/v1/configmaps", "{}"); a.code != 405 || strings.TrimSpace(string(a.body)) != refused {
				t.Errorf("%s: %d %s", method, a.code, a.body)
			}
			if a := ts.do(method, "/apis/example.com/v1/widgets", "{}"); a.code != 404 {
				t.Errorf("%s of custom resources: %d %s", method, a.code, a.body)
			}
		}
		if now := ts.server.ResourceVersion(); now != before {
			t.Errorf("something was written: %d after %d", now, before)
		}
		if a := ts.do(http.MethodDelete, "/api/v1/nodes", nil); a.code != 200 {
			t.Errorf("cluster-scoped: %d %s", a.code, a.body)
		}
	})
}

// badWrites are unusual requests, and the status code of each response. The server refuses most of
// them.
var badWrites = []struct {
	name, method, path, body string
	code                     int
	header                   []string
}{
	{"no JSON", "POST", configMaps, "{", 400, nil},
	{"empty body", "POST", configMaps, "", 400, nil},
	{"a list", "POST", configMaps, "[]", 400, nil},
	{"another kind", "POST", configMaps, `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}`, 400, nil},
	{"another version", "POST", configMaps, `{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"a"}}`, 400, nil},
	{"an unknown kind", "POST", configMaps, `{"kind":"Foo","apiVersion":"v1","metadata":{"name":"a"}}`, 400, nil},
	{"no kind", "POST", configMaps, `{"metadata":{"name":"no-kind"}}`, 201, nil},
	{"a wrong type", "POST", configMaps, `{"metadata":{"name":5}}`, 400, nil},
	{"another namespace", "POST", configMaps, `{"metadata":{"name":"a","namespace":"b"}}`, 400, nil},
	{"no namespace", "POST", "/api/v1/configmaps", namedConfigMap("a"), 405, nil},
	{"DELETE of watches", "DELETE", "/api/v1/watch/namespaces/default/configmaps", "", 405, nil},
	{"a namespace in a namespace", "POST", "/api/v1/namespaces", `{"metadata":{"name":"a","namespace":"b"}}`, 400, nil},
	{"no name", "POST", configMaps, `{"metadata":{}}`, 422, nil},
	{"a bad name", "POST", configMaps, namedConfigMap("A_b"), 422, nil},
	{"a name that is too long", "POST", configMaps, namedConfigMap(strings.Repeat("a", 254)), 422, nil},
	{"a bad namespace name", "POST", "/api/v1/namespaces", `{"metadata":{"name":"a.b"}}`, 422, nil},
	{"a resourceVersion at birth", "POST", configMaps, `{"metadata":{"name":"a","resourceVersion":"5"}}`, 400, nil},
	{"an unknown field", "POST", configMaps, `{"metadata":{"name":"unknown-field"},"foo":1}`, 201, nil},
	{"an unknown field, strictly", "POST", configMaps + "?fieldValidation=Strict", `{"metadata":{"name":"a"},"foo":1}`, 400, nil},
	{"a media type", "POST", configMaps, namedConfigMap("a"), 415, []string{"Content-Type", "application/yaml"}},
	{"a malformed media type", "POST", configMaps, namedConfigMap("a"), 415, []string{"Content-Type", ";;"}},
	{"no protobuf", "POST", configMaps, "k8s", 400, []string{"Content-Type", "application/vnd.kubernetes.protobuf"}},
	{"JSON in protobuf", "POST", configMaps, jsonInProtobuf(), 400, []string{"Content-Type", "application/vnd.kubernetes.protobuf"}},
	{"compressed", "POST", configMaps, namedConfigMap("a"), 415, []string{"Content-Encoding", "gzip"}},
	{"too large", "POST", configMaps, `{"x":"` + strings.Repeat("x", 3<<20) + `"}`, 413, nil},
	{"nothing acceptable", "POST", configMaps, namedConfigMap("unacceptable"), 406, []string{"Accept", "text/html"}},
	{"POST to an object", "POST", configMaps + "/there", namedConfigMap("there"), 405, nil},
	{"PUT of a collection", "PUT", configMaps, namedConfigMap("there"), 405, nil},
	{"PUT of another name", "PUT", configMaps + "/there", namedConfigMap("here"), 400, nil},
	{"PUT of nothing", "PUT", configMaps + "/missing", namedConfigMap("missing"), 404, nil},
	{"PUT of another uid", "PUT", configMaps + "/there", `{"metadata":{"name":"there","uid":"other"}}`, 409, nil},
	{"DELETE with a broken body", "DELETE", configMaps + "/there", "{", 400, nil},
	{"DELETE of a subresource", "DELETE", "/api/v1/namespaces/default/status", "", 405, nil},
	{"an unknown resource", "GET", "/api/v1/things", "", 404, nil},
	{"an unknown group", "GET", "/apis/no.such/v1/things", "", 404, nil},
	{"an unknown subresource", "GET", configMaps + "/there/scale", "", 404, nil},
	{"no status", "GET", configMaps + "/there/status", "", 404, nil},
	{"an object without its namespace", "GET", "/api/v1/configmaps/there", "", 404, nil},
	{"a cluster-scoped resource in a namespace", "GET", "/api/v1/namespaces/default/nodes", "", 404, nil},
	{"too long a path", "GET", configMaps + "/a/b/c", "", 404, nil},
	{"empty segments", "GET", "/api/v1//pods", "", 404, nil},
	{"a table in protobuf", "GET", configMaps, "", 406, []string{"Accept", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1"}},
	{"any media type of an application", "GET", configMaps, "", 406, []string{"Accept", "application/*"}},
	{"a list as one object's metadata", "GET", configMaps, "", 406, []string{"Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"}},
	{"an object as a list's metadata", "GET", configMaps + "/there", "", 406, []string{"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}},
	{"a table of unknown rows", "GET", configMaps + "?includeObject=All", "", 400, []string{"Accept", acceptTable}},
	{"a table of one unknown row", "GET", configMaps + "/there?includeObject=All", "", 400, []string{"Accept", acceptTable}},
	{"a watch of unknown rows", "GET", configMaps + "?watch=1&timeoutSeconds=1&includeObject=All", "", 400, []string{"Accept", acceptTable}},
	{"openapi v2", "GET", "/openapi/v2", "", 404, nil},
	{"a POST to discovery", "POST", "/api", "", 405, nil},
}

func namedConfigMap(name string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"%s"}}`, name)
}

// jsonInProtobuf returns a protobuf body whose object is JSON.
func jsonInProtobuf() string {
	enclosed, err := (&runtime.Unknown{Raw: []byte(`{"metadata":{"name":"json"}}`)}).Marshal()
	if err != nil {
		panic(err)
	}
	return "k8s\x00" + string(enclosed)
}

func TestBadWrites(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		ts.configMap("there", nil)
		for _, tt := range badWrites {
			a := ts.do(tt.method, tt.path, tt.body, tt.header...)
			if a.code != tt.code {
				t.Errorf("%s: answered %d, want %d: %s", tt.name, a.code, tt.code, a.body)
			}
			if a.code >= 400 {
				if s := a.status(t); s.Message == "" || s.Reason == "" {
					t.Errorf("%s: no reason: %s", tt.name, a.body)
				}
			}
		}
		if a := ts.get(configMaps+"/unacceptable", nil); a.code != 404 {
			t.Errorf("refused, but written: %d", a.code)
		}
	})
}
