package apiserver_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// patched is a pod that is patched.
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
			"no object":           {types.MergePatchType, `[]`, apierrors.IsBadRequest},
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
