package wire

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/check"
)

func readPath(t testing.TB, enc Encoding, typ reflect.Type, path string, object []byte) []string {
	t.Helper()
	p, err := CompilePath(enc, typ, path)
	check.NoError(t, err)
	values, err := p.Append(nil, object)
	if err != nil {
		t.Fatalf("%v %s: %v", enc, path, err)
	}
	var texts []string
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return texts
}

// Every path of every kind reads the same from both encodings.
func TestPathsAgreeInBothEncodings(t *testing.T) {
	types := apiTypes(t)
	paths, values := 0, 0
	for _, gvk := range sortedKinds(types) {
		typ := types[gvk]
		var leaves, all []string
		fieldPaths(typ, "", 0, &leaves, &all)
		for seed := range uint64(3) {
			obj := reflect.New(typ)
			(&filler{rnd: rand.New(rand.NewPCG(seed, 7)), full: seed == 0}).fill(obj.Elem(), 0)
			proto := bare(t, Protobuf, obj.Interface().(runtime.Object))
			json := bare(t, JSON, obj.Interface().(runtime.Object))
			for _, path := range leaves {
				got, want := readPath(t, Protobuf, typ, path, proto), readPath(t, JSON, nil, path, json)
				if !slices.Equal(got, want) {
					t.Errorf("%v %s: protobuf %q, json %q", gvk, path, got, want)
				}
				paths++
				values += len(got)
			}
		}
	}
	if values < paths/2 {
		t.Errorf("only %d values in %d paths: the objects are too empty", values, paths)
	}
}

func TestPath(t *testing.T) {
	pod := simPods(1)[0]
	pod.Labels = map[string]string{"app": "web", "a/b.c": "1", "x]y": "2"}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}
	pod.Status.PodIP = ""
	pod.Spec.HostNetwork = false
	for _, test := range []struct {
		path string
		want []string
	}{
		{"spec.nodeName", []string{pod.Spec.NodeName}},
		{".spec.nodeName", []string{pod.Spec.NodeName}},
		{"metadata.labels[app]", []string{"web"}},
		{"metadata.labels.app", []string{"web"}},
		{"metadata.labels[a/b.c]", []string{"1"}},
		{"metadata.labels['x]y']", []string{"2"}},
		{"metadata.labels[none]", nil},
		{"metadata.labels[*]", []string{"1", "web", "2"}},
		{"status.podIPs[*].ip", []string{"10.0.0.1", "fd00::1"}},
		{"status.podIPs[1].ip", []string{"fd00::1"}},
		{"status.podIPs[2].ip", nil},
		{"status.podIP", nil},
		{"spec.hostNetwork", nil},
		{"spec.containers[0].name", []string{pod.Spec.Containers[0].Name}},
	} {
		for _, enc := range encodings {
			got := readPath(t, enc, reflect.TypeFor[*corev1.Pod](), test.path, bare(t, enc, &pod))
			if !slices.Equal(got, test.want) {
				t.Errorf("%v %s: %q, want %q", enc, test.path, got, test.want)
			}
		}
	}
}

func TestCompilePathRefuses(t *testing.T) {
	for _, path := range []string{"", ".", "a..b", "a.", "a[", "a[]", "a['b]", "a]b", "a[b]c"} {
		for _, enc := range encodings {
			if _, err := CompilePath(enc, reflect.TypeFor[corev1.Pod](), path); !errors.Is(err, ErrPath) {
				t.Errorf("%v %q: %v", enc, path, err)
			}
		}
	}
	for _, path := range []string{
		"kind", "spec", "spec.nodename", "spec.nodeName.x", "spec.containers.name", "metadata.labels", "metadata.labels[*].x",
		"status.podIPs[x].ip", "spec[0]", "metadata.managedFields[*].fieldsV1",
	} {
		if _, err := CompilePath(Protobuf, reflect.TypeFor[corev1.Pod](), path); !errors.Is(err, ErrPath) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if _, err := CompilePath(Protobuf, nil, "spec.nodeName"); !errors.Is(err, ErrPath) {
		t.Errorf("no type: %v", err)
	}
}

func TestFieldNumber(t *testing.T) {
	for _, c := range []struct {
		tag    reflect.StructTag
		want   uint32
		tagged bool
	}{
		{`protobuf:"bytes,1,opt,name=metadata"`, 1, true},
		{`json:"a" protobuf:"varint,1024,rep,name=a"`, 1024, true},
		{`protobuf:"bytes,7"`, 7, true},
		{`protobuf:"bytes,536870911"`, maxFieldNumber, true},
		{`protobuf:"bytes,536870912"`, 0, true},
		{`protobuf:"bytes,-1,opt"`, 0, true},
		{`protobuf:"bytes,0,opt"`, 0, true},
		{`protobuf:"bytes,x,opt"`, 0, true},
		{`protobuf:"bytes"`, 0, true},
		{`protobuf:""`, 0, true},
		{`protobuf:"-"`, 0, false},
		{`json:"a"`, 0, false},
	} {
		if num, tagged := FieldNumber(reflect.StructField{Name: "A", Tag: c.tag}); num != c.want || tagged != c.tagged {
			t.Errorf("%s: %d, %v", c.tag, num, tagged)
		}
	}
}
