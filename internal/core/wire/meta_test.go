package wire

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/weirproject/weir/internal/testing/check"
)

// metaOf returns the ObjectMeta that a Meta was read from.
func metaOf(m *Meta) metav1.ObjectMeta {
	o := metav1.ObjectMeta{
		Namespace: string(m.Namespace), Name: string(m.Name), ResourceVersion: string(m.ResourceVersion),
		Generation: m.Generation,
	}
	o.CreationTimestamp = metav1.Time{Time: m.CreationTimestamp}
	if !m.DeletionTimestamp.IsZero() {
		o.DeletionTimestamp = &metav1.Time{Time: m.DeletionTimestamp}
	}
	for k, v := range m.Labels() {
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[string(k)] = string(v)
	}
	for k, v := range m.Annotations() {
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[string(k)] = string(v)
	}
	return o
}

// wantMeta is what of o a Meta holds.
func wantMeta(o metav1.ObjectMeta) metav1.ObjectMeta {
	w := metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, ResourceVersion: o.ResourceVersion, Generation: o.Generation,
		CreationTimestamp: metav1.Time{Time: o.CreationTimestamp.UTC()},
		Labels:            o.Labels, Annotations: o.Annotations,
	}
	if !o.DeletionTimestamp.IsZero() {
		w.DeletionTimestamp = &metav1.Time{Time: o.DeletionTimestamp.UTC()}
	}
	return w
}

func oddPods() []corev1.Pod {
	then := metav1.NewTime(time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC))
	return []corev1.Pod{
		{},
		{ObjectMeta: metav1.ObjectMeta{Name: "cluster-wide", Generation: -3}},
		{ObjectMeta: metav1.ObjectMeta{Name: "going", Namespace: "ns", DeletionTimestamp: &then, CreationTimestamp: then}},
		{ObjectMeta: metav1.ObjectMeta{
			Name: "qu\"o\\te\u2028<&>\x01é😀", Namespace: "n\ns",
			Labels:      map[string]string{"a\"b": "c\\d\te", "": "", "plain": "<x>"},
			Annotations: map[string]string{"json": `{"a":"b\n","c":[1,2]}`},
		}},
	}
}

func TestReadMeta(t *testing.T) {
	pods := append(simPods(5), oddPods()...)
	var m Meta
	for _, enc := range encodings {
		for i, p := range pods {
			t.Run(fmt.Sprint(enc, i), func(t *testing.T) {
				check.NoError(t, ReadMeta(enc, bare(t, enc, &p), &m))
				if d := cmp.Diff(wantMeta(p.ObjectMeta), metaOf(&m)); d != "" {
					t.Error(d)
				}
				check.Equal(t, string(m.UID), string(p.UID), "uid")
				for k := range maps.Keys(p.Labels) {
					if v, ok := m.Label(k); !ok || string(v) != p.Labels[k] {
						t.Errorf("label %q: %q %v", k, v, ok)
					}
				}
				if _, ok := m.Label("no such"); ok {
					t.Error("a label that is not there")
				}
				want := p.Name
				if p.Namespace != "" {
					want = p.Namespace + "/" + p.Name
				}
				check.Equal(t, string(AppendKey(nil, &m)), want, "key")
			})
		}
	}
}

// TestOddMeta: what is odd in an object's metadata is none, as it is to client-go's unstructured
// objects, unless it identifies the object.
func TestOddMeta(t *testing.T) {
	var m Meta
	for _, odd := range []string{
		`"creationTimestamp":""`, `"creationTimestamp":"yesterday"`, `"creationTimestamp":7`, `"creationTimestamp":"2026-11-20T1:02:03Z"`,
		`"deletionTimestamp":""`, `"deletionTimestamp":{}`,
		`"generation":1.0`, `"generation":"1"`, `"generation":99999999999999999999`, `"generation":12`,
		`"labels":{"a":1}`, `"labels":[]`, `"labels":"a"`, `"labels":{"a":"b"}`,
		`"annotations":{"a":1}`, `"annotations":{"a":{"b":"c"},"d":"e"}`, `"annotations":7`,
	} {
		object := `{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"5",` + odd + `}}`
		if err := ReadMeta(JSON, []byte(object), &m); err != nil {
			t.Errorf("%s: %v", odd, err)
			continue
		}
		var want unstructured.Unstructured
		check.NoError(t, utiljson.Unmarshal([]byte(object), &want.Object))
		has := metav1.ObjectMeta{
			Name: want.GetName(), Namespace: want.GetNamespace(), ResourceVersion: want.GetResourceVersion(), Generation: want.GetGeneration(),
			CreationTimestamp: want.GetCreationTimestamp(), DeletionTimestamp: want.GetDeletionTimestamp(), Labels: want.GetLabels(), Annotations: want.GetAnnotations(),
		}
		check.Equal(t, cmp.Diff(wantMeta(has), metaOf(&m)), "", "%s", odd)
	}
	for _, odd := range []string{`"name":1`, `"namespace":{}`, `"uid":[]`, `"resourceVersion":5`} {
		if err := ReadMeta(JSON, []byte(`{"metadata":{`+odd+`}}`), &m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

func TestReadMetaAllocatesNothing(t *testing.T) {
	for _, enc := range encodings {
		b := bare(t, enc, &simPods(1)[0])
		var m Meta
		n := testing.AllocsPerRun(100, func() {
			check.NoError(t, ReadMeta(enc, b, &m))
			for k, v := range m.Labels() {
				if len(k) == 0 || len(v) == 0 {
					t.Fatal("empty label")
				}
			}
			if _, ok := m.Annotation("no such"); ok {
				t.Fatal("an annotation that is not there")
			}
		})
		check.Equal(t, n, 0, "%v: allocations", enc)
	}
}
