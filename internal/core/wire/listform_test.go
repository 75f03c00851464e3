package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/check"
)

// A list in JSON has the bytes that apimachinery's serializer writes, in each form.
func TestListForms(t *testing.T) {
	count := int64(3)
	for _, meta := range []metav1.ListMeta{
		{ResourceVersion: "7"},
		{ResourceVersion: "7", Continue: "<next>"},
		{ResourceVersion: "7", Continue: "next", RemainingItemCount: &count},
	} {
		pods := podList(2)
		pods.ListMeta = meta
		none := &corev1.PodList{ListMeta: meta, Items: []corev1.Pod{}}
		partial := &metav1.PartialObjectMetadataList{ListMeta: meta, Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
		partialNone := &metav1.PartialObjectMetadataList{ListMeta: meta}
		widgets := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "shop.example/v1", "kind": "WidgetList"}}
		widgets.SetResourceVersion(meta.ResourceVersion)
		widgets.SetContinue(meta.Continue)
		widgets.SetRemainingItemCount(meta.RemainingItemCount)
		noWidgets := widgets.DeepCopy()
		widgets.Items = []unstructured.Unstructured{{Object: map[string]any{"kind": "Widget", "apiVersion": "shop.example/v1", "a": "<"}}, {Object: map[string]any{"kind": "Widget"}}}
		for list, form := range map[runtime.Object]ListForm{
			pods: TypedList, none: TypedList, partial: MetadataList, partialNone: MetadataList, widgets: UnstructuredList, noWidgets: UnstructuredList,
		} {
			want := encodeStreaming(t, JSON, list)
			if got := rewrite(t, want, form); !bytes.Equal(got, want) {
				t.Errorf("form %d: %s", form, cmp.Diff(string(want), string(got)))
			}
		}
	}
}

// rewrite writes the list in body again.
func rewrite(t *testing.T, body []byte, form ListForm) []byte {
	t.Helper()
	var list struct {
		Kind, APIVersion string
		Metadata         metav1.ListMeta
		Items            []json.RawMessage
	}
	check.NoError(t, json.Unmarshal(body, &list))
	m := ListMeta{ResourceVersion: list.Metadata.ResourceVersion, Continue: list.Metadata.Continue, RemainingItemCount: -1}
	if n := list.Metadata.RemainingItemCount; n != nil {
		m.RemainingItemCount = *n
	}
	var out bytes.Buffer
	w := NewListWriter(&out, JSON, TypeMeta{list.APIVersion, list.Kind}, m, 0)
	w.Form = form
	for _, item := range list.Items {
		check.NoError(t, w.WriteItem(item))
	}
	check.NoError(t, w.Close())
	return out.Bytes()
}
