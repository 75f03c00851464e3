package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

type servedKind struct {
	schema.GroupVersion
	metav1.APIResource
}

// everyKind returns all kinds in discovery that support create and list.
func (ts *testServer) everyKind() []servedKind {
	ts.t.Helper()
	_, lists, err := ts.typed.Discovery().ServerGroupsAndResources()
	check.NoError(ts.t, err)
	var out []servedKind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"create", "list"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		check.NoError(ts.t, err)
		for _, r := range list.APIResources {
			out = append(out, servedKind{gv, r})
		}
	}
	if len(out) < 60 {
		ts.t.Errorf("only %d kinds", len(out))
	}
	return out
}

// object returns an object of the kind. It has only a name.
func (k servedKind) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(k.WithKind(k.Kind))
	o.SetName("a")
	if k.Kind == "IPAddress" {
		o.SetName("fd00::1")
	}
	return o
}

// path returns the path of all objects of the kind.
func (k servedKind) path() string {
	if k.GroupVersion.Group == "" {
		return "/api/v1/" + k.Name
	}
	return "/apis/" + k.GroupVersion.String() + "/" + k.Name
}

// collection returns the path of the kind's objects in namespace default or, for a cluster-scoped
// kind, of all its objects.
func (k servedKind) collection() string {
	if !k.Namespaced {
		return k.path()
	}
	return strings.TrimSuffix(k.path(), k.Name) + "namespaces/default/" + k.Name
}

// TestEveryKind creates, reads, lists, watches and deletes one object of each kind in discovery,
// except CustomResourceDefinition.
func TestEveryKind(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for _, k := range ts.everyKind() {
			if k.Kind != "CustomResourceDefinition" { // has a separate test
				ts.liveThrough(k)
			}
		}
	})
}

func (ts *testServer) liveThrough(k servedKind) {
	ts.t.Helper()
	client := ts.dynamic.Resource(k.WithResource(k.Name)).Namespace("")
	if k.Namespaced {
		client = ts.dynamic.Resource(k.WithResource(k.Name)).Namespace("default")
	}
	name := k.object().GetName()
	selected := "fieldSelector=metadata.name%3D" + url.QueryEscape(name)
	created, err := client.Create(ctx, k.object(), metav1.CreateOptions{})
	if err != nil {
		ts.t.Errorf("%s: %v", k.Name, err)
		return
	}
	got, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil || got.GetKind() != k.Kind || got.GetUID() != created.GetUID() {
		ts.t.Errorf("%s: got %v, %v", k.Name, got, err)
	}
	partial, err := ts.metadata.Resource(k.WithResource(k.Name)).List(ctx, metav1.ListOptions{LabelSelector: "x!=y"})
	if err != nil || partial.Items[0].GetName() != name {
		ts.t.Errorf("%s: listed %v, %v", k.Name, partial, err)
	}
	a := ts.do("GET", k.path()+"?"+selected, nil, "Accept", "application/vnd.kubernetes.protobuf")
	// The oldest supported k8s.io/api has no Go types for the kinds of storagemigration.k8s.io/v1 and
	// for some other kinds.
	switch hasType := scheme.Scheme.Recognizes(k.WithKind(k.Kind)) && k.GroupVersion.Group != "storagemigration.k8s.io"; {
	case !hasType && a.code != 406:
		ts.t.Errorf("%s: protobuf without a Go type: %d", k.Name, a.code)
	case hasType && (a.code != 200 || a.header.Get("Content-Type") != "application/vnd.kubernetes.protobuf"):
		ts.t.Errorf("%s: protobuf: %d", k.Name, a.code)
	}
	w := ts.watch(k.path() + "?watch=1&" + selected)
	defer w.close()
	check.Equal(ts.t, w.next(), "ADDED "+name+"@"+created.GetResourceVersion(), "%s", k.Name)
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		ts.t.Errorf("%s: %v", k.Name, err)
	}
}

// TestScaleOfController checks the scale of a ReplicationController, whose selector is a map of
// labels. The server must refuse an update of the scale with an old resourceVersion.
func TestScaleOfController(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		controllers := ts.protobuf.CoreV1().ReplicationControllers("default")
		replicas := int32(2)
		rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "rc"}, Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: map[string]string{"b": "2", "a": "1"}}}
		if _, err := controllers.Create(ctx, rc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		scale, err := controllers.GetScale(ctx, "rc", metav1.GetOptions{})
		if err != nil || scale.Spec.Replicas != 2 || scale.Status.Selector != "a=1,b=2" {
			t.Fatalf("the scale is %+v, %v", scale, err)
		}
		scale.Spec.Replicas = 7
		if scale, err = controllers.UpdateScale(ctx, "rc", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 7 {
			t.Fatalf("the new scale is %+v, %v", scale, err)
		}
		if rc, err = controllers.Get(ctx, "rc", metav1.GetOptions{}); err != nil || *rc.Spec.Replicas != 7 || rc.Generation != 2 {
			t.Errorf("the object is %+v, %v", rc, err)
		}
		scale.ResourceVersion = "1001"
		if _, err = controllers.UpdateScale(ctx, "rc", scale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old version: %v", err)
		}
	})
}

// TestScaleOfCustomResource checks that the scale of a custom resource uses the field paths in the
// CustomResourceDefinition.
func TestScaleOfCustomResource(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		crd := widgetDefinition()
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			v.(map[string]any)["subresources"] = map[string]any{"scale": map[string]any{
				"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}}
		}
		check.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		if _, err := ts.dynamic.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		red := widget("red", "red")
		red.Object["status"] = map[string]any{"selector": "color=red", "size": int64(1)}
		objects := ts.dynamic.Resource(widgets).Namespace("default")
		if _, err := objects.Create(ctx, red, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		scaled, err := objects.Patch(ctx, "red", types.MergePatchType, []byte(`{"spec":{"replicas":4}}`), metav1.PatchOptions{}, "scale")
		check.NoError(t, err)
		status, _, _ := unstructured.NestedMap(scaled.Object, "status")
		if diff := cmp.Diff(map[string]any{"selector": "color=red", "replicas": int64(1)}, status); diff != "" || scaled.GetKind() != "Scale" {
			t.Error(scaled.GetKind(), diff)
		}
		got, err := objects.Get(ctx, "red", metav1.GetOptions{})
		if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); err != nil || size != 4 {
			t.Errorf("spec.size is %d, %v", size, err)
		}
		if a := ts.do(http.MethodGet, "/api/v1/namespaces/default/configmaps/x/scale", nil); a.code != http.StatusNotFound {
			t.Errorf("the scale of what has none: %d", a.code)
		}
	})
}

// TestToken checks that the server issues an unsigned JWT for an existing service account.
func TestToken(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		accounts := ts.protobuf.CoreV1().ServiceAccounts("default")
		if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		request, err := accounts.CreateToken(ctx, "a", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		check.NoError(t, err)
		parts := strings.Split(request.Status.Token, ".")
		if len(parts) != 3 || parts[2] != "" {
			t.Fatalf("the token is %q", request.Status.Token)
		}
		text, err := base64.RawURLEncoding.DecodeString(parts[1])
		check.NoError(t, err)
		var claims struct {
			Sub string `json:"sub"`
			Exp int64  `json:"exp"`
		}
		if err := json.Unmarshal(text, &claims); err != nil || claims.Sub != "system:serviceaccount:default:a" || claims.Exp != time.Now().Add(time.Hour).Unix() {
			t.Errorf("the token says %s (%v)", text, err)
		}
	})
}

// TestReviews checks that access reviews allow everything, in JSON and protobuf, and that discovery
// contains them.
func TestReviews(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		access, err := ts.protobuf.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
		if err != nil || !access.Status.Allowed {
			t.Errorf("an access review: %+v, %v", access, err)
		}
		rules, err := ts.typed.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{}, metav1.CreateOptions{})
		if err != nil || len(rules.Status.ResourceRules) != 1 {
			t.Errorf("a rules review: %+v, %v", rules, err)
		}
		for token, want := range map[string]bool{"": false, "any": true} {
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
			if review, err = ts.typed.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil || review.Status.Authenticated != want {
				t.Errorf("a review of token %q: %+v, %v", token, review, err)
			}
		}
		var list metav1.APIResourceList
		ts.get("/apis/authorization.k8s.io/v1", &list)
		if len(list.APIResources) != 4 || cmp.Diff([]string{"create"}, []string(list.APIResources[1].Verbs)) != "" {
			t.Errorf("discovery shows %+v", list.APIResources)
		}
		ts.get("/api/v1", &list)
		subresources := map[string]string{}
		for _, r := range list.APIResources {
			subresources[r.Name] = r.Group + "/" + r.Version + " " + r.Kind
		}
		for name, want := range map[string]string{
			"pods/eviction": "policy/v1 Eviction", "serviceaccounts/token": "authentication.k8s.io/v1 TokenRequest", "replicationcontrollers/scale": "autoscaling/v1 Scale",
		} {
			check.Equal(t, subresources[name], want, "discovery shows %s as", name)
		}
	})
}

// TestNamespaceMustExist checks that a new object's namespace must exist, as in kube-apiserver,
// unless AnyNamespace is set.
func TestNamespaceMustExist(t *testing.T) {
	for _, anyNamespace := range []bool{false, true} {
		withTestServer(t, apiserver.Options{AnyNamespace: anyNamespace}, func(t *testing.T, ts *testServer) {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			if _, err := ts.typed.CoreV1().ConfigMaps("missing").Create(ctx, cm, metav1.CreateOptions{}); apierrors.IsNotFound(err) == anyNamespace {
				t.Errorf("AnyNamespace %v: %v", anyNamespace, err)
			}
			ending := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending", Finalizers: []string{"weir.dev/test"}}}
			if _, err := ts.typed.CoreV1().Namespaces().Create(ctx, ending, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := ts.typed.CoreV1().ConfigMaps("ending").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			check.NoError(t, ts.typed.CoreV1().Namespaces().Delete(ctx, "ending", metav1.DeleteOptions{}))
			cm.Name = "y"
			if _, err := ts.typed.CoreV1().ConfigMaps("ending").Create(ctx, cm, metav1.CreateOptions{}); apierrors.IsForbidden(err) == anyNamespace {
				t.Errorf("AnyNamespace %v, while it ends: %v", anyNamespace, err)
			}
		})
	}
}
