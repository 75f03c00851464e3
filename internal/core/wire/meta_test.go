package wire

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

// metaOf returns an ObjectMeta with the values of m.
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

// wantMeta returns o without the fields that Meta lacks.
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

// TestOddMeta checks that ReadMeta ignores a metadata field of a wrong type, as client-go's
// unstructured objects do. Only name, namespace, uid and resourceVersion must be strings.
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
		check.ErrorIs(t, ReadMeta(JSON, []byte(`{"metadata":{`+odd+`}}`), &m), ErrMalformed, "%s", odd)
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

// TestLabelSet checks that different labels have different sets, that LabelSetOf returns the same
// set as LabelSet, and that EachLabel yields the labels in the set.
func TestLabelSet(t *testing.T) {
	long := string(make([]byte, 300))
	all := []map[string]string{
		nil, {"a": ""}, {"": "a"}, {"a": "b"}, {"ab": ""}, {"a": "b", "c": "d"}, {"a": "bc", "d": ""}, {"a\"b": "c\\d\te", "": "", "plain": "<x>"}, {long: long},
	}
	seen := map[string]int{}
	for i, labels := range all {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels}}
		raw, err := pod.Marshal()
		check.NoError(t, err)
		var m Meta
		check.NoError(t, ReadMeta(Protobuf, raw, &m))
		set := string(m.LabelSet())
		if other, ok := seen[set]; ok {
			t.Errorf("%q and %q have the same set", labels, all[other])
		}
		seen[set] = i
		if got := maps.Collect(EachLabel(set)); !maps.Equal(got, labels) {
			t.Errorf("EachLabel yields %q for %q", labels, got)
		}
		if string(LabelSetOf(labels)) != set {
			t.Errorf("%q as a map is another set", labels)
		}
	}
}

func TestLabelSetUnordered(t *testing.T) {
	var m Meta
	for _, labels := range []string{`{"a":"1","b":"2"}`, `{"b":"2","a":"1"}`, `{"a":"0","b":"2","a":"1"}`, `{"a":"0","a":"1","b":"2"}`} {
		check.NoError(t, ReadMeta(JSON, fmt.Appendf(nil, `{"metadata":{"name":"p","labels":%s}}`, labels), &m))
		check.Equal(t, string(m.LabelSet()), "\x01a\x011\x01b\x012", "%s", labels)
	}
}

// TestEachLabelOfNothing checks that EachLabel yields no labels of a malformed set, and returns.
func TestEachLabelOfNothing(t *testing.T) {
	for _, set := range []string{"\x05ab", "\x01", "\x01a", "\x01a\x07", "\xff\xff\xff\xff\xff\xff", "\x01a\xff"} {
		for key, value := range EachLabel(set) {
			t.Errorf("%q: %q is %q", set, key, value)
		}
	}
}

// TestFingerprintOfListAndWatch checks that the item of a list and the object of an event have the
// same fingerprint if they are the same pod. In JSON, only the event states the pod's kind.
func TestFingerprintOfListAndWatch(t *testing.T) {
	for _, enc := range encodings {
		list := podList(20)
		items, err := readList(NewListReader(bytes.NewReader(encode(t, enc, list)), enc, Limits{}))
		check.NoError(t, err)
		var events []watch.Event
		for i := range list.Items {
			events = append(events, watch.Event{Type: watch.Added, Object: withKind(t, &list.Items[i])})
		}
		got, err := readWatch(NewWatchReader(bytes.NewReader(encodeEvents(t, enc, events)), enc, Limits{}))
		check.NoError(t, err)
		seen := map[uint64]int{}
		for i, item := range items {
			f := Fingerprint(enc, item)
			if other, ok := seen[f]; ok || f == 0 {
				t.Errorf("%v: pod %d has the fingerprint %x of pod %d", enc, i, f, other)
			}
			seen[f] = i
			if event := got[i].Object; Fingerprint(enc, event) != f || !Same(enc, item, event) {
				t.Errorf("%v: pod %d is not the same in an event:\n%s\n%s", enc, i, item, event)
			}
			if enc == JSON && bytes.Equal(item, got[i].Object) {
				t.Error("the event does not say its kind")
			}
		}
	}
}

// TestFingerprintOfCustomResource checks that two custom resources that differ in one field have
// different fingerprints. The members of a custom resource are sorted, so kind does not follow
// apiVersion immediately.
func TestFingerprintOfCustomResource(t *testing.T) {
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "data": map[string]any{"x": "y"},
		"metadata": map[string]any{"name": "w", "resourceVersion": "5"}, "spec": map[string]any{"color": "red"},
	}}
	text, err := widget.MarshalJSON()
	check.NoError(t, err)
	widget.Object["spec"] = map[string]any{"color": "blue"}
	other, err := widget.MarshalJSON()
	check.NoError(t, err)
	if Fingerprint(JSON, text) == Fingerprint(JSON, other) || Same(JSON, text, other) {
		t.Error("red is as good as blue")
	}
}

func TestSame(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{`{}`, `{"kind":"Pod","apiVersion":"v1"}`, true},
		{`{"metadata":{"name":"a"},"spec":{"x":1}}`, "\n{ \"spec\" : {\"x\":1} , \"kind\":\"Pod\",\"metadata\" : {\"name\":\"a\"}\n}", true},
		{`{"metadata":{"name":"a"}}`, `{"m\u0065tadata":{"name":"a"}}`, true},
		{`{"spec":{"x":1}}`, `{"spec":{"x":2}}`, false},
		{`{"spec":{"x":1}}`, `{"spec":{"x":1},"status":{}}`, false},
		{`{"spec":{"x":1},"status":{}}`, `{"spec":{"x":1}}`, false},
		{`{"spec":1,"data":1}`, `{"spec":1,"spec":1}`, false},
		{`{"spec":1}`, `{"spec":1`, false},
		{``, `{}`, false},
	} {
		check.Equal(t, Same(JSON, []byte(tc.a), []byte(tc.b)), tc.want, "%s and %s", tc.a, tc.b)
	}
	a, b := bare(t, Protobuf, &podList(1).Items[0]), bare(t, Protobuf, &podList(2).Items[1])
	if !Same(Protobuf, a, bytes.Clone(a)) || Same(Protobuf, a, b) {
		t.Error("protobuf is compared wrong")
	}
}

// TestFingerprintOfAnything checks that Fingerprint ignores only apiVersion and kind, and only in
// front of the other members. It also checks that Fingerprint returns if the JSON is incomplete.
func TestFingerprintOfAnything(t *testing.T) {
	same := Fingerprint(JSON, []byte(`{"metadata":{"name":"a"}}`))
	for text, want := range map[string]bool{
		`{"kind":"Pod","metadata":{"name":"a"}}`:                        true,
		` { "apiVersion" : "v1" , "kind":"x","metadata":{"name":"a"}}`:  true,
		`{"kind":{"kind":"Pod"},"metadata":{"name":"a"}}`:               true,
		`{"kinds":"Pod","metadata":{"name":"a"}}`:                       false,
		`{"kind":"Pod","metadata":{"name":"b"}}`:                        false,
		`{"kind":"Pod","metadata":{"name":"a"},"status":{"phase":"x"}}`: false,
		``: false, `{`: false, `{"`: false, `{"kind`: false, `{"kind"`: false, `{"kind":`: false, `{"kind":"x"`: false, `{"kind":"x",`: false, `{}`: false,
	} {
		check.Equal(t, Fingerprint(JSON, []byte(text)) == same, want, "%s: the same", text)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for _, enc := range encodings {
		b.Run(enc.String(), func(b *testing.B) {
			object := bare(b, enc, &podList(1).Items[0])
			b.SetBytes(int64(len(object)))
			for b.Loop() {
				Fingerprint(enc, object)
			}
		})
	}
}

// namedOnly implements only GetName, GetNamespace and GetResourceVersion; the other methods panic.
type namedOnly struct {
	metav1.Object
	name string
}

func (n namedOnly) GetName() string            { return n.name }
func (n namedOnly) GetNamespace() string       { return "d" }
func (n namedOnly) GetResourceVersion() string { return "7" }

// TestIdentityOf checks the identities of Go values, and the errors for values without metadata. It
// also checks ReadMetaOf and ReadBookmarkOf with the same values.
func TestIdentityOf(t *testing.T) {
	annotated := metav1.ObjectMeta{
		Namespace: "d", Name: "a", UID: types.UID("u"), ResourceVersion: "7", Annotations: map[string]string{initialEventsEnd: "true"},
	}
	for _, test := range []struct {
		value any
		want  Identity
		err   string
	}{
		{&corev1.Pod{ObjectMeta: annotated}, Identity{"d", "a", "u", "7"}, ""},
		{namedOnly{name: "a"}, Identity{"d", "a", "", "7"}, ""},
		{(*corev1.Pod)(nil), Identity{}, "nil *v1.Pod"},
		{nil, Identity{}, "no metadata"},
		{&corev1.PodList{}, Identity{}, "no metadata"},
		{struct{ metav1.Object }{}, Identity{}, "panic"},
	} {
		id, err := IdentityOf(test.value)
		if id != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%T: %+v, %v, want %+v, %q", test.value, id, err, test.want, test.err)
		}
		var m Meta
		if got := ReadMetaOf(test.value, &m); (got == nil) != (err == nil) {
			t.Errorf("%T: %v", test.value, got)
		}
		if string(m.Name) != test.want.Name || m.InitialEventsEnd() {
			t.Errorf("%T: metadata of %q", test.value, m.Name)
		}
	}
	var m Meta
	if err := ReadBookmarkOf(&corev1.Pod{ObjectMeta: annotated}, &m); err != nil || !m.InitialEventsEnd() {
		t.Errorf("bookmark: %v, %v", err, m.InitialEventsEnd())
	}
	if err := ReadBookmarkOf(namedOnly{name: "a"}, &m); err == nil {
		t.Error("annotations were read")
	}
}
