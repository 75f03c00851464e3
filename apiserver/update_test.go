package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// conditional lists the kinds whose updates must have a resourceVersion. madeByPut lists the kinds
// whose missing objects a PUT creates. Both are as in kubernetes v1.37.
var (
	conditional = strings.Fields(`ClusterTrustBundle CSIDriver CSINode CSIStorageCapacity CustomResourceDefinition DeviceTaintRule
		Lease MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration PodCertificateRequest
		PodDisruptionBudget RuntimeClass StorageVersionMigration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
		ValidatingWebhookConfiguration VolumeAttachment Widget`)
	madeByPut = strings.Fields(`ClusterRole ClusterRoleBinding Endpoints Event Lease LimitRange Role RoleBinding RuntimeClass Service`)
)

// TestUnconditionalUpdates checks the response to a PUT without a resourceVersion for each kind,
// before and after the object exists.
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
			if k.Kind == "CustomResourceDefinition" { // exists, and cannot be created with only a name
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
			if k.Kind == "Widget" { // its other version serves the same object
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
		// The server must also refuse a patch that removes the resourceVersion.
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

// TestUpdateOfNothing checks that an update that changes nothing causes neither a new
// resourceVersion nor an event, even if it is the object's first update.
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

// patched is a pod that a test patches repeatedly.
type patched struct {
	t    *testing.T
	pods typedcorev1.PodInterface
	pod  *corev1.Pod // after the last patch
}

func newPatched(t *testing.T, ts *testServer) *patched {
	t.Helper()
	pods := ts.protobuf.CoreV1().Pods("default")
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "1"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "one", Image: "i1", Env: []corev1.EnvVar{{Name: "X", Value: "1"}}}, {Name: "two", Image: "i2"}}},
	}, metav1.CreateOptions{})
	check.NoError(t, err)
	return &patched{t, pods, pod}
}

func (p *patched) patch(kind types.PatchType, text string, sub ...string) error {
	pod, err := p.pods.Patch(ctx, "p", kind, []byte(text), metav1.PatchOptions{}, sub...)
	if err == nil {
		p.pod = pod
	}
	return err
}

func (p *patched) must(kind types.PatchType, text string, sub ...string) {
	p.t.Helper()
	check.NoError(p.t, p.patch(kind, text, sub...))
}

func TestPatch(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		p := newPatched(t, ts)
		p.must(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"two","image":"new"}]}}`)
		if len(p.pod.Spec.Containers) != 2 || p.pod.Spec.Containers[0].Image != "i1" && p.pod.Spec.Containers[1].Image != "i1" || p.pod.Generation != 2 {
			t.Errorf("strategic: %+v", p.pod.Spec.Containers)
		}
		p.must(types.MergePatchType, `{"metadata":{"labels":{"a":null,"b":"2"}},"spec":{"containers":[{"name":"only"}]}}`)
		if len(p.pod.Spec.Containers) != 1 || p.pod.Labels["b"] != "2" || len(p.pod.Labels) != 1 {
			t.Errorf("merge: %+v %v", p.pod.Spec.Containers, p.pod.Labels)
		}
		p.must(types.JSONPatchType, `[{"op":"test","path":"/metadata/labels/b","value":"2"},{"op":"add","path":"/metadata/labels/c~1d","value":"3"}]`)
		if p.pod.Labels["c/d"] != "3" {
			t.Errorf("JSON: %v", p.pod.Labels)
		}
		p.must(types.MergePatchType, `{"status":{"phase":"Running"},"spec":{"nodeName":"n"}}`, "status")
		if p.pod.Status.Phase != "Running" || p.pod.Spec.NodeName != "" {
			t.Errorf("status: %+v %q", p.pod.Status, p.pod.Spec.NodeName)
		}
		before := p.pod.ResourceVersion
		p.must(types.MergePatchType, `{"metadata":{"labels":{"b":"2"}}}`)
		if p.pod.ResourceVersion != before {
			t.Error("a patch of nothing was written")
		}
	})
}

func TestBadPatches(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		p := newPatched(t, ts)
		stale := p.pod.ResourceVersion
		p.must(types.MergePatchType, `{"metadata":{"labels":{"b":"2"}}}`)
		for name, tt := range map[string]struct {
			kind types.PatchType
			text string
			is   func(error) bool
		}{
			"stale":               {types.MergePatchType, `{"metadata":{"resourceVersion":"` + stale + `"}}`, apierrors.IsConflict},
			"a test that fails":   {types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"q"}]`, apierrors.IsInvalid},
			"an unknown op":       {types.JSONPatchType, `[{"op":"fly","path":"/a"}]`, apierrors.IsInvalid},
			"no list":             {types.JSONPatchType, `{}`, apierrors.IsBadRequest},
			"no path":             {types.JSONPatchType, `[{"op":"remove"}]`, apierrors.IsInvalid},
			"an index too high":   {types.JSONPatchType, `[{"op":"add","path":"/spec/containers/9","value":{}}]`, apierrors.IsInvalid},
			"no object":           {types.MergePatchType, `[]`, apierrors.IsBadRequest},
			"null":                {types.MergePatchType, `null`, apierrors.IsBadRequest},
			"a strategic non-map": {types.StrategicMergePatchType, `5`, apierrors.IsBadRequest},
			"a wrong type":        {types.MergePatchType, `{"spec":{"containers":5}}`, apierrors.IsBadRequest},
			"another name":        {types.MergePatchType, `{"metadata":{"name":"q"}}`, apierrors.IsBadRequest},
			"another namespace":   {types.MergePatchType, `{"metadata":{"namespace":"q"}}`, apierrors.IsBadRequest},
			"server-side apply":   {types.ApplyPatchType, `{}`, apierrors.IsUnsupportedMediaType},
			"another type":        {"text/plain", `{}`, apierrors.IsUnsupportedMediaType},
		} {
			if err := p.patch(tt.kind, tt.text); !tt.is(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := p.pods.Patch(ctx, "q", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("patch of nothing: %v", err)
		}
		many := "[" + strings.Repeat(`{"op":"remove","path":"/a"},`, 10_000) + `{"op":"remove","path":"/a"}]`
		if err := p.patch(types.JSONPatchType, many); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("a long patch: %v", err)
		}
	})
}
