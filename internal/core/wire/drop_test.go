package wire

import (
	"encoding/json"
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

// dropFrom removes what a path names from decoded JSON: the model of a Dropper.
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

// checkDrop drops paths in both encodings and compares the results with the model's.
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

// TestDropsLabels: a Dropper knows whether it drops labels, so that callers need not read the
// metadata again otherwise.
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
