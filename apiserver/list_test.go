package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// future is a resourceVersion that the server does not reach.
const future = "999999"

// listSemantics has a case for each row of the LIST table in Kubernetes' documentation of
// resourceVersions. Before the LIST, the test creates a, b and c, changes b, and deletes c. In
// query and want, {a}, {b} and {c} are the resourceVersions at which these objects were created.
// {start} is the resourceVersion before the first of them was created, and {end} is the
// resourceVersion of the deletion of c.
var listSemantics = []struct {
	name, query string
	code        int
	want        string // names, then @ and the expected resourceVersion of the list
	more        bool   // the list has a continue token
}{
	{"unset, empty", "", 200, "a b@now", false},
	{"unset, empty, limit", "limit=1", 200, "a@now", true},
	{"unset, 0", "resourceVersion=0", 200, "a b@now", false},
	{"unset, 0: limit is ignored", "resourceVersion=0&limit=1", 200, "a b@now", false},
	{"unset, N: not older", "resourceVersion={b}", 200, "a b@now", false},
	{"unset, N from the future", "resourceVersion=" + future, 504, "", false},
	{"unset, N, limit: exactly", "resourceVersion={b}&limit=5", 200, "a b@{b}", false},
	{"unset, N, limit: a page of it", "resourceVersion={c}&limit=2", 200, "a b@{c}", true},
	{"unset, N, limit, too old", "resourceVersion=7&limit=5", 410, "", false},
	{"Exact N", "resourceVersionMatch=Exact&resourceVersion={c}", 200, "a b c@{c}", false},
	{"Exact N before the first", "resourceVersionMatch=Exact&resourceVersion={start}", 200, "@{start}", false},
	{"Exact N, now", "resourceVersionMatch=Exact&resourceVersion={end}", 200, "a b@{end}", false},
	{"Exact N from the future", "resourceVersionMatch=Exact&resourceVersion=" + future, 504, "", false},
	{"Exact, too old", "resourceVersionMatch=Exact&resourceVersion=7", 410, "", false},
	{"Exact, empty", "resourceVersionMatch=Exact", 422, "", false},
	{"Exact, 0", "resourceVersionMatch=Exact&resourceVersion=0", 422, "", false},
	{"NotOlderThan 0", "resourceVersionMatch=NotOlderThan&resourceVersion=0", 200, "a b@now", false},
	{"NotOlderThan N", "resourceVersionMatch=NotOlderThan&resourceVersion={b}", 200, "a b@now", false},
	{"NotOlderThan N honours limit", "resourceVersionMatch=NotOlderThan&resourceVersion={b}&limit=1", 200, "a@now", true},
	{"NotOlderThan N from the future", "resourceVersionMatch=NotOlderThan&resourceVersion=" + future, 504, "", false},
	{"NotOlderThan, empty", "resourceVersionMatch=NotOlderThan", 422, "", false},
	{"unknown match", "resourceVersionMatch=Near&resourceVersion={b}", 422, "", false},
	{"sendInitialEvents", "sendInitialEvents=true", 422, "", false},
	{"continue with a resourceVersion", "continue=abc&resourceVersion={b}", 400, "", false},
	{"continue with a match", "continue=abc&resourceVersion={b}&resourceVersionMatch=Exact", 422, "", false},
	{"a broken token", "continue=abc", 400, "", false},
	{"a resourceVersion that is no number", "resourceVersion=abc", 400, "", false},
	{"a limit that is no number", "limit=many", 400, "", false},
	{"a negative limit is none", "limit=-1", 200, "a b@now", false},
	{"unknown parameters are ignored", "colour=blue&pretty=true", 200, "a b@now", false},
	{"a broken label selector", "labelSelector=a%20in%20(", 400, "", false},
	{"a broken field selector", "fieldSelector=a", 400, "", false},
	{"an unknown field", "fieldSelector=data.x%3D1", 400, "", false},
	{"labels", "labelSelector=colour%3Dblue", 200, "b@now", false},
	{"labels, exactly", "labelSelector=colour&resourceVersionMatch=Exact&resourceVersion={c}", 200, "c@{c}", false},
	{"fields", "fieldSelector=metadata.name!%3Da", 200, "b@now", false},
	{"one name", "fieldSelector=metadata.name%3Da", 200, "a@now", false},
	{"another namespace", "fieldSelector=metadata.namespace%3Dother", 200, "@now", false},
}

func TestListSemantics(t *testing.T) {
	for _, tt := range listSemantics {
		t.Run(tt.name, func(t *testing.T) {
			withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
				versions := []string{"{start}", fmt.Sprint(ts.server.ResourceVersion())}
				versions = append(versions, "{a}", ts.configMap("a", nil))
				versions = append(versions, "{b}", ts.configMap("b", nil))
				versions = append(versions, "{c}", ts.configMap("c", map[string]string{"colour": "red"}))
				ts.relabel("b", map[string]string{"colour": "blue"})
				versions = append(versions, "{end}", ts.remove("c"), "@now", "@"+fmt.Sprint(ts.server.ResourceVersion()))
				fill := strings.NewReplacer(versions...)

				a := ts.do(http.MethodGet, configMaps+"?"+fill.Replace(tt.query), nil)
				if a.code != tt.code {
					t.Fatalf("answered %d, want %d: %s", a.code, tt.code, a.body)
				}
				if tt.code != 200 {
					checkStatus(t, a)
					return
				}
				var list corev1.ConfigMapList
				a.decode(t, &list)
				check.Equal(t, listed(&list)+"@"+list.ResourceVersion, fill.Replace(tt.want))
				if (list.Continue != "") != tt.more {
					t.Errorf("continue is %q", list.Continue)
				}
			})
		})
	}
}

// TestNamespaceField checks that field selectors of most kinds support metadata.namespace, also for
// cluster-scoped kinds.
func TestNamespaceField(t *testing.T) {
	gadgets := apiserver.Resource{GroupVersionResource: widgets.GroupVersion().WithResource("gadgets"), Kind: "Gadget"}
	withTestServer(t, apiserver.Options{Resources: []apiserver.Resource{gadgets}}, func(t *testing.T, ts *testServer) {
		for path, code := range map[string]int{
			"/api/v1/pods":              200,
			"/api/v1/persistentvolumes": 200,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": 200,
			"/api/v1/nodes":      400,
			"/api/v1/namespaces": 400,
			"/apis/certificates.k8s.io/v1/certificatesigningrequests": 400,
			"/apis/certificates.k8s.io/v1/clustertrustbundles":        400,
			"/apis/certificates.k8s.io/v1/podcertificaterequests":     400,
			"/apis/resource.k8s.io/v1/resourceslices":                 400,
			"/apis/example.com/v1/gadgets":                            400,
		} {
			if a := ts.get(path+"?fieldSelector=metadata.namespace%3Dx", nil); a.code != code {
				t.Errorf("%s: answered %d, want %d: %s", path, a.code, code, a.body)
			}
		}
	})
}

func listed(list *corev1.ConfigMapList) string {
	var names []string
	for _, cm := range list.Items {
		names = append(names, cm.Name)
	}
	return strings.Join(names, " ")
}

// checkStatus checks the fields of an error response that a client needs.
func checkStatus(t *testing.T, a answer) {
	t.Helper()
	s := a.status(t)
	reasons := map[int]metav1.StatusReason{
		400: metav1.StatusReasonBadRequest,
		410: metav1.StatusReasonExpired,
		422: metav1.StatusReasonInvalid,
		504: metav1.StatusReasonTimeout,
	}
	if s.Reason != reasons[a.code] || s.Message == "" {
		t.Errorf("reason %q, message %q", s.Reason, s.Message)
	}
	if a.code == 504 {
		err := &apierrors.StatusError{ErrStatus: *s}
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || a.header.Get("Retry-After") != "1" ||
			s.Details.RetryAfterSeconds != 1 {
			t.Errorf("too large, but: %+v, Retry-After %q", s.Details, a.header.Get("Retry-After"))
		}
	}
}

func TestListPages(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for i := range 10 {
			ts.configMap(fmt.Sprintf("cm-%d", i), nil)
		}
		maps := ts.protobuf.CoreV1().ConfigMaps("default")
		ctx := context.Background()
		first, err := maps.List(ctx, metav1.ListOptions{Limit: 4})
		check.NoError(t, err)
		if *first.RemainingItemCount != 6 || len(first.Items) != 4 {
			t.Fatalf("first page: %d items, %d remain", len(first.Items), *first.RemainingItemCount)
		}
		// Changes between two pages are not visible.
		ts.remove("cm-1")
		ts.remove("cm-6")
		ts.configMap("cm-55", nil)
		ts.relabel("cm-8", map[string]string{"late": "yes"})
		names := listed(first)
		token := first.Continue
		for token != "" {
			page, err := maps.List(ctx, metav1.ListOptions{Limit: 3, Continue: token})
			check.NoError(t, err)
			if page.ResourceVersion != first.ResourceVersion {
				t.Errorf("page at %s, the first at %s", page.ResourceVersion, first.ResourceVersion)
			}
			for _, cm := range page.Items {
				if len(cm.Labels) > 0 {
					t.Errorf("%s is newer than the list", cm.Name)
				}
			}
			names += " " + listed(page)
			token = page.Continue
		}
		check.Equal(t, names, "cm-0 cm-1 cm-2 cm-3 cm-4 cm-5 cm-6 cm-7 cm-8 cm-9")

		// The token is now too old. The server answers 410 and sends a new token. With the new token, the
		// client can list the remaining objects in their current versions.
		ts.server.Compact()
		_, err = maps.List(ctx, metav1.ListOptions{Limit: 3, Continue: first.Continue})
		status := apierrors.APIStatus(nil)
		if !apierrors.IsResourceExpired(err) || !asStatus(err, &status) || status.Status().ListMeta.Continue == "" {
			t.Fatalf("an old token: %v", err)
		}
		rest, err := maps.List(ctx, metav1.ListOptions{Continue: status.Status().ListMeta.Continue})
		check.NoError(t, err)
		check.Equal(t, listed(rest), "cm-4 cm-5 cm-55 cm-7 cm-8 cm-9", "inconsistent rest")
	})
}

func asStatus(err error, target *apierrors.APIStatus) bool {
	s, ok := err.(apierrors.APIStatus)
	*target = s
	return ok
}

// TestListClients checks that all kinds of clients receive the same pods in a LIST: typed clients
// in JSON and protobuf, dynamic clients and metadata clients. A GET must return the same pod as the
// LIST.
func TestListClients(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 300}, func(t *testing.T, ts *testServer) {
		ctx := context.Background()
		pods, err := ts.typed.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		viaProtobuf, err := ts.protobuf.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
		unstructured, err := ts.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		partial, err := ts.metadata.Resource(gvr).List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		if len(pods.Items) != 300 || len(viaProtobuf.Items) != 300 || len(unstructured.Items) != 300 || len(partial.Items) != 300 {
			t.Fatalf("%d %d %d %d pods", len(pods.Items), len(viaProtobuf.Items), len(unstructured.Items), len(partial.Items))
		}
		for i := range pods.Items {
			if !semanticEqual(&pods.Items[i], &viaProtobuf.Items[i]) {
				t.Fatalf("pod %d differs between JSON and protobuf", i)
			}
			if unstructured.Items[i].GetUID() != pods.Items[i].UID || !semanticEqual(partial.Items[i].ObjectMeta, pods.Items[i].ObjectMeta) {
				t.Fatalf("pod %d differs between clients", i)
			}
		}
		one, err := ts.protobuf.CoreV1().Pods(pods.Items[7].Namespace).Get(ctx, pods.Items[7].Name, metav1.GetOptions{})
		if err != nil || !semanticEqual(one, &pods.Items[7]) {
			t.Fatalf("GET differs from LIST: %v", err)
		}
		onePartial, err := ts.metadata.Resource(gvr).Namespace(one.Namespace).Get(ctx, one.Name, metav1.GetOptions{})
		if err != nil || onePartial.UID != one.UID {
			t.Fatalf("GET of the metadata: %v", err)
		}
		_, err = ts.typed.CoreV1().Pods("default").Get(ctx, "missing", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("GET of nothing: %v", err)
		}
	})
}

// TestFieldSelectors checks that a LIST with a field selector returns the same objects as a filter
// in the test.
func TestFieldSelectors(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 200}, func(t *testing.T, ts *testServer) {
		ctx := context.Background()
		all, err := ts.typed.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		some := &all.Items[42]
		for _, tt := range []struct {
			fields, labels string
			match          func(p *corev1.Pod) bool
		}{
			{"spec.nodeName=" + some.Spec.NodeName, "", func(p *corev1.Pod) bool { return p.Spec.NodeName == some.Spec.NodeName }},
			{"spec.nodeName!=" + some.Spec.NodeName, "", func(p *corev1.Pod) bool { return p.Spec.NodeName != some.Spec.NodeName }},
			{"spec.restartPolicy=Always,status.phase=Running", "", func(*corev1.Pod) bool { return true }},
			{"spec.schedulerName=default-scheduler,spec.hostNetwork=false", "", func(*corev1.Pod) bool { return true }},
			{"spec.hostNetwork=true", "", func(*corev1.Pod) bool { return false }},
			{"spec.serviceAccountName=" + some.Spec.ServiceAccountName, "",
				func(p *corev1.Pod) bool { return p.Spec.ServiceAccountName == some.Spec.ServiceAccountName }},
			{"status.podIP=" + some.Status.PodIP, "", func(p *corev1.Pod) bool { return p.Name == some.Name }},
			{"status.nominatedNodeName=", "", func(*corev1.Pod) bool { return true }},
			{"metadata.name=" + some.Name, "", func(p *corev1.Pod) bool { return p.Name == some.Name }},
			{"metadata.namespace=" + some.Namespace, "", func(p *corev1.Pod) bool { return p.Namespace == some.Namespace }},
			{"metadata.namespace!=" + some.Namespace, "", func(p *corev1.Pod) bool { return p.Namespace != some.Namespace }},
			{"metadata.name=a,metadata.name=b", "", func(*corev1.Pod) bool { return false }},
			{"", "app=" + some.Labels["app"], func(p *corev1.Pod) bool { return p.Labels["app"] == some.Labels["app"] }},
			{"", "app!=" + some.Labels["app"], func(p *corev1.Pod) bool { return p.Labels["app"] != some.Labels["app"] }},
			{"", "team in (cart,billing),track", func(p *corev1.Pod) bool { return slices.Contains([]string{"cart", "billing"}, p.Labels["team"]) }},
			{"", "team notin (cart,billing),!nothing", func(p *corev1.Pod) bool {
				return !slices.Contains([]string{"cart", "billing"}, p.Labels["team"])
			}},
			{"", "app>5", func(*corev1.Pod) bool { return false }},
			{"spec.nodeName=" + some.Spec.NodeName, "app=" + some.Labels["app"], func(p *corev1.Pod) bool {
				return p.Spec.NodeName == some.Spec.NodeName && p.Labels["app"] == some.Labels["app"]
			}},
		} {
			want := 0
			for i := range all.Items {
				if tt.match(&all.Items[i]) {
					want++
				}
			}
			got, err := ts.protobuf.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: tt.fields, LabelSelector: tt.labels})
			if err != nil {
				t.Errorf("%s %s: %v", tt.fields, tt.labels, err)
				continue
			}
			check.Equal(t, len(got.Items), want, "%s %s: pods", tt.fields, tt.labels)
			for i := range got.Items {
				if !tt.match(&got.Items[i]) {
					t.Errorf("%s %s: chose %s", tt.fields, tt.labels, got.Items[i].Name)
				}
			}
		}
	})
}

// acceptTable is the Accept header that kubectl sends.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

func TestTables(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 30}, func(t *testing.T, ts *testServer) {
		var table metav1.Table
		ts.do(http.MethodGet, "/api/v1/pods?limit=10", nil, "Accept", acceptTable).decode(t, &table)
		if table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || len(table.Rows) != 10 || table.Continue == "" || *table.RemainingItemCount != 20 {
			t.Fatalf("%+v", table.ListMeta)
		}
		var columns []string
		for _, d := range table.ColumnDefinitions {
			columns = append(columns, d.Name)
		}
		check.Equal(t, strings.Join(columns, " "), "Name Ready Status Restarts Age IP Node Nominated Node Readiness Gates", "columns")
		row := table.Rows[0]
		if len(row.Cells) != len(columns) || row.Cells[1] != "2/2" || row.Cells[2] != "Running" || row.Cells[4] == "" {
			t.Errorf("cells %v", row.Cells)
		}
		var p metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &p); err != nil || p.Kind != "PartialObjectMetadata" || p.Name != row.Cells[0] {
			t.Errorf("object %s: %v", row.Object.Raw, err)
		}
		path := "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name
		var one metav1.Table
		ts.do(http.MethodGet, path+"?includeObject=Object", nil, "Accept", acceptTable).decode(t, &one)
		var pod corev1.Pod
		if err := json.Unmarshal(one.Rows[0].Object.Raw, &pod); err != nil || pod.Kind != "Pod" || len(pod.Spec.Containers) != 2 {
			t.Errorf("object %s: %v", one.Rows[0].Object.Raw, err)
		}
		var none metav1.Table
		ts.do(http.MethodGet, path+"?includeObject=None", nil, "Accept", acceptTable).decode(t, &none)
		if none.Rows[0].Object.Raw != nil && string(none.Rows[0].Object.Raw) != "null" {
			t.Errorf("object %s", none.Rows[0].Object.Raw)
		}
		var empty metav1.Table
		ts.do(http.MethodGet, "/api/v1/namespaces/default/secrets", nil, "Accept", acceptTable).decode(t, &empty)
		if empty.Rows == nil || len(empty.Rows) != 0 {
			t.Errorf("rows %v", empty.Rows)
		}

		w := ts.watch("/api/v1/pods?watch=1", "Accept", acceptTable)
		defer w.close()
		e, err := w.events.Next()
		if err != nil || e.TypeMeta.Kind != "Table" {
			t.Fatal(err, e.TypeMeta)
		}
		var event metav1.Table
		if err := json.Unmarshal(e.Object, &event); err != nil || len(event.Rows) != 1 || event.ResourceVersion == "" {
			t.Errorf("event %s: %v", e.Object, err)
		}
	})
}
