package wire

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// TestPathsAgreeInBothEncodings checks, for each kind and each path to a single value, that the
// path returns the same values in both encodings.
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

// dropFrom removes the values at a path from decoded JSON. Tests compare a Dropper with it.
func dropFrom(v any, steps []pathStep) any {
	last := len(steps) == 1
	s := steps[0]
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			switch {
			case s.sel != selectAll && s.name != name:
			case last:
				delete(v, name)
			default:
				v[name] = dropFrom(v[name], steps[1:])
			}
		}
	case []any:
		if s.sel != selectAll {
			return v
		}
		if last {
			return []any{}
		}
		for i := range v {
			v[i] = dropFrom(v[i], steps[1:])
		}
	}
	return v
}

func dropBytes(t *testing.T, enc Encoding, typ reflect.Type, object []byte, paths ...string) []byte {
	t.Helper()
	d, err := CompileDrop(enc, typ, paths...)
	check.NoError(t, err)
	b, err := d.Append([]byte("before"), object)
	if err != nil {
		t.Fatalf("%v %q: %v", enc, paths, err)
	}
	if string(b[:6]) != "before" {
		t.Fatalf("%v %q: overwrote what was there", enc, paths)
	}
	return b[6:]
}

// checkDrop drops the paths in both encodings and compares the results with those of dropFrom.
func checkDrop(t *testing.T, typ reflect.Type, obj runtime.Object, paths ...string) {
	t.Helper()
	text := bare(t, JSON, obj)
	var model any
	check.NoError(t, json.Unmarshal(text, &model))
	for _, path := range paths {
		steps, err := parsePath(path)
		check.NoError(t, err)
		model = dropFrom(model, steps)
	}
	droppedJSON := dropBytes(t, JSON, nil, text, paths...)
	var got any
	if err := json.Unmarshal(droppedJSON, &got); err != nil {
		t.Fatalf("%v: %v", paths, err)
	}
	if !reflect.DeepEqual(got, model) {
		t.Fatalf("%v %q: %s", typ, paths, cmp.Diff(model, got))
	}
	droppedProto := dropBytes(t, Protobuf, typ, bare(t, Protobuf, obj), paths...)
	fromProto, fromJSON := reflect.New(typ).Interface(), reflect.New(typ).Interface()
	if err := fromProto.(interface{ Unmarshal([]byte) error }).Unmarshal(droppedProto); err != nil {
		t.Fatalf("%v %q: %v", typ, paths, err)
	}
	if err := json.Unmarshal(droppedJSON, fromJSON); err != nil {
		t.Fatalf("%v %q: %v", typ, paths, err)
	}
	if !equality.Semantic.DeepEqual(fromProto, fromJSON) {
		t.Fatalf("%v %q: %s", typ, paths, cmp.Diff(fromProto, fromJSON))
	}
}

func TestDropAnyFieldOfAnyKind(t *testing.T) {
	types := apiTypes(t)
	for n, gvk := range sortedKinds(types) {
		typ := types[gvk]
		var leaves, all []string
		fieldPaths(typ, "", 0, &leaves, &all)
		rnd := rand.New(rand.NewPCG(uint64(n), 7))
		obj := reflect.New(typ)
		(&filler{rnd: rnd, full: true}).fill(obj.Elem(), 0)
		for range 8 {
			var paths []string
			for range 1 + rnd.IntN(3) {
				paths = append(paths, all[rnd.IntN(len(all))])
			}
			checkDrop(t, typ, obj.Interface().(runtime.Object), paths...)
		}
	}
}

func TestDropFromPods(t *testing.T) {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	typ := reflect.TypeFor[corev1.Pod]()
	for _, pod := range append(simPods(3), oddPods()...) {
		if pod.Annotations != nil {
			pod.Annotations[lastApplied] = `{"a":"b"}`
		}
		checkDrop(t, typ, &pod)
		checkDrop(t, typ, &pod, "metadata.managedFields")
		checkDrop(t, typ, &pod, "metadata.annotations["+lastApplied+"]", "status")
		checkDrop(t, typ, &pod, "spec.containers[*].env", "spec.containers[*].env[*].value", "metadata.labels[*]")
		checkDrop(t, typ, &pod, "spec.volumes[*].projected.sources[*].serviceAccountToken.path")
		checkDrop(t, typ, &pod, "spec.containers[*].resources.limits[*]", "spec.containers[*].resources.limits[cpu]")
		for _, enc := range encodings {
			object := bare(t, enc, &pod)
			if got := dropBytes(t, enc, typ, object); !slices.Equal(got, object) {
				t.Errorf("%v: dropping nothing changes the object", enc)
			}
		}
	}
	if _, err := CompileDrop(Protobuf, typ, "metadata.finalizers[0]"); err == nil {
		t.Error("one element dropped")
	}
}

// TestDropsLabels checks DropsLabels for paths with and without labels and annotations.
func TestDropsLabels(t *testing.T) {
	for _, enc := range encodings {
		for path, want := range map[string]bool{
			"metadata": true, "metadata.labels": true, "metadata.labels[app]": true, "metadata.labels[*]": true,
			"metadata.annotations[note]": true, "metadata.managedFields": false, "spec.containers": false,
		} {
			d, err := CompileDrop(enc, reflect.TypeFor[corev1.Pod](), path)
			check.NoError(t, err)
			if d.DropsLabels() != want {
				t.Errorf("%s, %s: %v", enc, path, !want)
			}
		}
	}
}
