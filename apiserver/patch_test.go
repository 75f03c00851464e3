package apiserver_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/apiserver"
)

func TestPatch(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		pods := ts.protobuf.CoreV1().Pods("default")
		pod, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "1"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "one", Image: "i1", Env: []corev1.EnvVar{{Name: "X", Value: "1"}}}, {Name: "two", Image: "i2"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stale := pod.ResourceVersion
		patch := func(kind types.PatchType, text string, sub ...string) error {
			t.Helper()
			p, err := pods.Patch(ctx, "p", kind, []byte(text), metav1.PatchOptions{}, sub...)
			if err == nil {
				pod = p
			}
			return err
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(patch(types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"two","image":"new"}]}}`))
		if len(pod.Spec.Containers) != 2 || pod.Spec.Containers[0].Image != "i1" && pod.Spec.Containers[1].Image != "i1" || pod.Generation != 2 {
			t.Errorf("strategic: %+v", pod.Spec.Containers)
		}
		must(patch(types.MergePatchType, `{"metadata":{"labels":{"a":null,"b":"2"}},"spec":{"containers":[{"name":"only"}]}}`))
		if len(pod.Spec.Containers) != 1 || pod.Labels["b"] != "2" || len(pod.Labels) != 1 {
			t.Errorf("merge: %+v %v", pod.Spec.Containers, pod.Labels)
		}
		must(patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/labels/b","value":"2"},{"op":"add","path":"/metadata/labels/c~1d","value":"3"}]`))
		if pod.Labels["c/d"] != "3" {
			t.Errorf("JSON: %v", pod.Labels)
		}
		must(patch(types.MergePatchType, `{"status":{"phase":"Running"},"spec":{"nodeName":"n"}}`, "status"))
		if pod.Status.Phase != "Running" || pod.Spec.NodeName != "" {
			t.Errorf("status: %+v %q", pod.Status, pod.Spec.NodeName)
		}
		before := pod.ResourceVersion
		must(patch(types.MergePatchType, `{"metadata":{"labels":{"b":"2"}}}`))
		if pod.ResourceVersion != before {
			t.Error("a patch of nothing was written")
		}
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
			if err := patch(tt.kind, tt.text); !tt.is(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := pods.Patch(ctx, "q", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("patch of nothing: %v", err)
		}
		many := "[" + strings.Repeat(`{"op":"remove","path":"/a"},`, 10_000) + `{"op":"remove","path":"/a"}]`
		if err := patch(types.JSONPatchType, many); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("a long patch: %v", err)
		}
	})
}
