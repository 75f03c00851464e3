package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
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
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestScaleOfController: a ReplicationController's selector is a set of labels, and an update with
// an old resourceVersion is refused.
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

// TestScaleOfCustomResource: a definition has the paths of the scale.
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

// TestToken: a token is a JWT without a signature, for an existing account.
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

// TestReviews: every caller may do everything, in either encoding, and discovery shows the reviews.
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

// TestNamespaceMustExist: as in kube-apiserver, except for a server with AnyNamespace.
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
