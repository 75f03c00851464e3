package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// The kinds whose strategies in kubernetes v1.37 differ from most.
var (
	conditional = strings.Fields(`ClusterTrustBundle CSIDriver CSINode CSIStorageCapacity CustomResourceDefinition DeviceTaintRule
		Lease MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration PodCertificateRequest
		PodDisruptionBudget RuntimeClass StorageVersionMigration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
		ValidatingWebhookConfiguration VolumeAttachment Widget`)
	madeByPut = strings.Fields(`ClusterRole ClusterRoleBinding Endpoints Event Lease LimitRange Role RoleBinding RuntimeClass Service`)
)

// TestUnconditionalUpdates puts an object of each kind without a resourceVersion, where it exists
// and where it does not.
func TestUnconditionalUpdates(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		defineWidgets(t, ts)
		for _, k := range ts.everyKind() {
			o := k.object()
			put := func() answer { return ts.do(http.MethodPut, k.collection()+"/"+o.GetName(), o) }
			want := http.StatusNotFound
			if slices.Contains(madeByPut, k.Kind) {
				want = http.StatusCreated
			}
			if a := put(); a.code != want {
				t.Errorf("PUT of no %s: %d, want %d: %s", k.Kind, a.code, want, a.body)
			}
			if k.Kind == "CustomResourceDefinition" { // exists, and requires more than a name to be created
				o = widgetDefinition()
			} else if want == http.StatusNotFound {
				if a := ts.do(http.MethodPost, k.collection(), o); a.code != http.StatusCreated {
					t.Errorf("POST of a %s: %d: %s", k.Kind, a.code, a.body)
				}
			}
			want = http.StatusOK
			if slices.Contains(conditional, k.Kind) {
				want = http.StatusUnprocessableEntity
			}
			for _, version := range []string{"", "0"} {
				o.SetResourceVersion(version)
				if a := put(); a.code != want {
					t.Errorf("PUT of a %s with resourceVersion %q: %d, want %d: %s", k.Kind, version, a.code, want, a.body)
				}
			}
			if k.Kind == "Widget" { // whose other version has the same objects
				ts.do(http.MethodDelete, k.collection()+"/"+o.GetName(), nil)
			}
		}
	})
}

func TestConditionalUpdate(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
		lease := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": "a", "resourceVersion": "77"}}}
		lease.SetUID("unknown")
		if a := ts.do(http.MethodPut, leases+"/a", lease); a.code != http.StatusConflict {
			t.Errorf("created with an uid: %d: %s", a.code, a.body)
		}
		lease.SetUID("")
		if a := ts.do(http.MethodPut, leases+"/a?dryRun=All", lease); a.code != http.StatusCreated {
			t.Errorf("dry run: %d: %s", a.code, a.body)
		}
		if a := ts.do(http.MethodPut, leases+"/a", lease); a.code != http.StatusCreated {
			t.Errorf("created: %d: %s", a.code, a.body)
		}
		var made metav1.PartialObjectMetadata
		if ts.get(leases+"/a", &made); made.UID == "" || made.CreationTimestamp.IsZero() || made.ResourceVersion == "77" {
			t.Errorf("created: %+v", made)
		}
		if a := ts.do(http.MethodPut, leases+"/a", lease); a.code != http.StatusConflict {
			t.Errorf("with a stale resourceVersion: %d: %s", a.code, a.body)
		}
		lease.SetResourceVersion("")
		s := ts.do(http.MethodPut, leases+"/a", lease).status(t)
		const want = `leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`
		if s.Reason != metav1.StatusReasonInvalid || s.Message != want || s.Details.Kind != "leases" || s.Details.Group != "coordination.k8s.io" {
			t.Errorf("got %+v", s)
		}
		// A patch that removes the object's resourceVersion is treated the same.
		client := ts.typed.CoordinationV1().Leases("default")
		patch := []byte(`{"metadata":{"resourceVersion":null,"labels":{"a":"b"}}}`)
		if _, err := client.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("patched: %v", err)
		}
		if _, err := client.Patch(ctx, "b", types.MergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("patched nothing: %v", err)
		}
		ts.configMap("a", nil)
		cm, err := ts.typed.CoreV1().ConfigMaps("default").Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil || cm.Labels["a"] != "b" {
			t.Errorf("patched: %v", err)
		}
		if a := ts.do(http.MethodPut, "/api/v1/namespaces/default/services/none/status", `{"metadata":{"name":"none"}}`); a.code != http.StatusNotFound {
			t.Errorf("a status of nothing: %d: %s", a.code, a.body)
		}
	})
}

// TestUpdateOfNothing: an update that changes nothing creates neither a resourceVersion nor an
// event, from the first update on.
func TestUpdateOfNothing(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		defineWidgets(t, ts)
		client := ts.dynamic.Resource(widgets).Namespace("default")
		w := widget("red", "<red>")
		w.SetLabels(map[string]string{"a": "b"})
		made, err := client.Create(ctx, w, metav1.CreateOptions{})
		check.NoError(t, err)
		version := made.GetResourceVersion()
		same, err := client.Update(ctx, made, metav1.UpdateOptions{})
		if err != nil || same.GetResourceVersion() != version {
			t.Errorf("updated: %v, %s after %s", err, same.GetResourceVersion(), version)
		}
		same, err = client.Patch(ctx, "red", types.MergePatchType, []byte(`{"spec":{"color":"<red>"}}`), metav1.PatchOptions{})
		if err != nil || same.GetResourceVersion() != version {
			t.Errorf("patched: %v, %s after %s", err, same.GetResourceVersion(), version)
		}
		events := ts.watch("/apis/example.com/v1/widgets?watch=1&resourceVersion=" + version)
		defer events.close()
		check.NoError(t, client.Delete(ctx, "red", metav1.DeleteOptions{}))
		if e := events.next(); !strings.HasPrefix(e, "DELETED red@") {
			t.Errorf("watched %s", e)
		}
		dry, err := client.Create(ctx, widget("dry", "red"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || dry.GetResourceVersion() != "" {
			t.Errorf("a dry run: %v, resourceVersion %q", err, dry.GetResourceVersion())
		}
	})
}
