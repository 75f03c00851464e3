package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/weirproject/weir/internal/testing/check"
)

func isTooLarge(err error) bool { return errors.Is(err, ErrTooLarge) }

// checkMeta compares m, a result of ReadMeta, with want, which apimachinery decoded from the same
// bytes.
func checkMeta(t *testing.T, m *Meta, want metav1.ObjectMeta) {
	t.Helper()
	if d := cmp.Diff(wantMeta(want), metaOf(m), cmpopts.EquateEmpty()); d != "" {
		t.Fatal(d)
	}
	if string(want.UID) != string(m.UID) {
		t.Fatalf("uid %q, want %q", m.UID, want.UID)
	}
	for k, v := range want.Labels {
		if got, ok := m.Label(k); !ok || string(got) != v {
			t.Fatalf("label %q: %q %v, want %q", k, got, ok, v)
		}
	}
}

func FuzzReadMetaProtobuf(f *testing.F) {
	seedObjects(f, Protobuf)
	f.Fuzz(func(t *testing.T, object []byte) {
		var m Meta
		if err := ReadMeta(Protobuf, object, &m); err != nil {
			return
		}
		var p metav1.PartialObjectMetadata
		if err := p.Unmarshal(object); err == nil {
			checkMeta(t, &m, p.ObjectMeta)
		}
		changed, err := AppendWithResourceVersion(nil, Protobuf, object, "77")
		if err != nil {
			t.Fatalf("read, but cannot be changed: %v", err)
		}
		if err := ReadMeta(Protobuf, changed, &m); err != nil || string(m.ResourceVersion) != "77" {
			t.Fatalf("changed to %q, %v", m.ResourceVersion, err)
		}
	})
}

func FuzzReadMetaJSON(f *testing.F) {
	seedObjects(f, JSON)
	f.Add([]byte(`{"m\u0065tadata":{"name":"\ud83d\ude00\/\ud800","labels":{"a":null,"a":"b"},"deletionTimestamp":"2026-11-20T01:02:03.5+01:00"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var m Meta
		_ = ReadMeta(JSON, body, &m) // must not panic for any input
		_, object, err := CutObject(JSON, body)
		if json.Valid(body) != (err == nil) && modelObject(body) == nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("%v of %s", err, body)
		}
		if err != nil {
			return
		}
		if !json.Valid(object) {
			t.Fatalf("not JSON: %s", object)
		}
		if ReadMeta(JSON, object, &m) != nil || !utf8.Valid(object) {
			return
		}
		var p struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := utiljson.Unmarshal(object, &p); err == nil {
			checkMeta(t, &m, p.Metadata)
		}
		changed, err := AppendWithResourceVersion(nil, JSON, object, "77")
		if err != nil || !json.Valid(changed) {
			t.Fatalf("changed to %s, %v", changed, err)
		}
		if err := ReadMeta(JSON, changed, &m); err != nil || string(m.ResourceVersion) != "77" {
			t.Fatalf("changed to %q, %v", m.ResourceVersion, err)
		}
	})
}

var (
	fuzzPaths = []string{"spec.nodeName", "status.phase", "metadata.labels[app]", "metadata.name", "spec.containers[*].env[*].value", "metadata.managedFields[*].time"}
	fuzzDrops = []string{"metadata.managedFields", "metadata.labels[app]", "spec.containers[*].env", "status"}
)

func mustPaths(f *testing.F, enc Encoding) (paths []*Path, drop *Dropper) {
	typ := reflect.TypeFor[corev1.Pod]()
	for _, text := range fuzzPaths {
		p, err := CompilePath(enc, typ, text)
		check.NoError(f, err)
		paths = append(paths, p)
	}
	drop, err := CompileDrop(enc, typ, fuzzDrops...)
	check.NoError(f, err)
	return paths, drop
}

func FuzzPathProtobuf(f *testing.F) {
	seedObjects(f, Protobuf)
	paths, drop := mustPaths(f, Protobuf)
	f.Fuzz(func(t *testing.T, object []byte) {
		var pod corev1.Pod
		decodes := pod.Unmarshal(object) == nil
		for i, want := range []string{pod.Spec.NodeName, string(pod.Status.Phase), pod.Labels["app"], "", "", ""} {
			values, err := paths[i].Append(nil, object)
			if err != nil || !decodes || i > 2 {
				continue
			}
			got := ""
			if len(values) > 0 {
				got = string(values[len(values)-1])
			}
			if got != want {
				t.Fatalf("%s: %q, want %q", fuzzPaths[i], values, want)
			}
		}
		dropped, err := drop.Append(nil, object)
		if err != nil || !decodes {
			return
		}
		var got corev1.Pod
		if err := got.Unmarshal(dropped); err != nil {
			t.Fatalf("does not decode without the fields: %v", err)
		}
		pod.ManagedFields, pod.Status = nil, corev1.PodStatus{}
		delete(pod.Labels, "app")
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Env = nil
		}
		if d := cmp.Diff(pod, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzPathJSON(f *testing.F) {
	seedObjects(f, JSON)
	paths, drop := mustPaths(f, JSON)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range paths {
			_, _ = p.Append(nil, body)
		}
		_, _ = drop.Append(nil, body)
		_, object, err := CutObject(JSON, body)
		if err != nil {
			return
		}
		dropped, err := drop.Append(nil, object)
		if err != nil {
			t.Fatalf("a good object cannot be parsed: %v", err)
		}
		var model, got any
		if err := json.Unmarshal(object, &model); err != nil {
			return // a number that float64 cannot represent
		}
		if err := json.Unmarshal(dropped, &got); err != nil {
			t.Fatalf("not JSON without the fields: %v", err)
		}
		for _, text := range fuzzDrops {
			steps, _ := parsePath(text)
			model = dropFrom(model, steps)
		}
		if utf8.Valid(object) && !reflect.DeepEqual(model, got) {
			t.Fatal(cmp.Diff(model, got))
		}
		values, err := paths[0].Append(nil, object)
		var pod struct {
			Spec struct {
				NodeName string `json:"nodeName"`
			} `json:"spec"`
		}
		if err == nil && utf8.Valid(object) && utiljson.Unmarshal(object, &pod) == nil && pod.Spec.NodeName != "" {
			if !slices.EqualFunc(values, []string{pod.Spec.NodeName}, func(v []byte, s string) bool { return string(v) == s }) {
				t.Fatalf("nodeName %q, want %q", values, pod.Spec.NodeName)
			}
		}
	})
}

func FuzzCutObjectProtobuf(f *testing.F) {
	for _, p := range seedPods() {
		f.Add(encode(f, Protobuf, &p))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		tm, object, err := CutObject(Protobuf, body)
		if err != nil {
			return
		}
		second, same, err := CutObject(Protobuf, AppendObject(nil, Protobuf, tm, object))
		if err != nil || second != tm || !bytes.Equal(same, object) {
			t.Fatalf("%v %v, then %v %v", tm, object, second, same)
		}
		_, _ = ReadStatus(Protobuf, body)
	})
}
