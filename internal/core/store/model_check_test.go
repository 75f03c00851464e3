package store

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

type modelSnap struct {
	sn   *Snapshot
	want map[string]*corev1.Pod
}

func podUID(text string) types.UID { return types.UID(text) }

// decodeLabels decodes the fields that the test's indexes by function read.
func decodeLabels(raw []byte, _ *codec.Version) (any, error) {
	var meta wire.Meta
	err := wire.ReadMeta(wire.JSON, raw, &meta)
	pod := smallPod(string(meta.Namespace), string(meta.Name), 0, 0, nil, "")
	app, _ := meta.Label("app")
	pod.Labels = map[string]string{"app": string(app)}
	return pod, err
}

func (m *model) addIndex() {
	m.indexes++
	var err error
	switch m.indexes {
	case 1:
		err = m.store.AddIndex("app", LabelIndex("app"))
	case 2:
		var p *wire.Path
		if p, err = wire.CompilePath(m.enc, reflect.TypeFor[corev1.Pod](), "spec.nodeName"); err == nil {
			err = m.store.AddIndex("node", FieldIndex(p))
		}
	case 3:
		err = m.store.AddIndex("byapp", FuncIndex(func(v any) ([]string, error) {
			if app := v.(*corev1.Pod).Labels["app"]; app != "" {
				return []string{app}, nil
			}
			return nil, nil
		}))
	}
	check.NoError(m.t, err)
}

func (m *model) checkSnapshot(sn *Snapshot, want map[string]*corev1.Pod) {
	m.t.Helper()
	var keys []string
	for o := range sn.All() {
		keys = append(keys, o.Key())
		pod := want[o.Key()]
		if pod == nil {
			m.t.Fatalf("holds %s, which should be gone", o.Key())
		}
		raw, err := o.AppendRaw(nil)
		if err != nil || string(raw) != string(podsim.Encode(m.enc.String(), pod)) || o.Size() != len(raw) {
			m.t.Fatalf("%s: wrong bytes (%v)", o.Key(), err)
		}
		if o.UID() != string(pod.UID) || o.ResourceVersion() != pod.ResourceVersion || o.Namespace() != pod.Namespace || o.Name() != pod.Name {
			m.t.Fatalf("%s: %s %s %s %s", o.Key(), o.UID(), o.ResourceVersion(), o.Namespace(), o.Name())
		}
	}
	if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, wanted) || sn.Len() != len(wanted) {
		m.t.Fatalf("holds %v, want %v", keys, wanted)
	}
	var inB []string
	for o := range sn.Namespace("b") {
		inB = append(inB, o.Key())
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, "b/") })
	if !slices.Equal(inB, keys) {
		m.t.Fatalf("namespace b: %v, want %v", inB, keys)
	}
}

func (m *model) checkIndexes(sn *Snapshot) {
	m.t.Helper()
	for i, name := range []string{"app", "node", "byapp"}[:m.indexes] {
		want := map[string][]string{}
		for o := range sn.All() {
			key := o.Key()
			value, _ := o.Label("app")
			if i == 1 {
				value = m.nodeOf(o)
			}
			if value != "" {
				want[value] = append(want[value], key)
			}
		}
		values := slices.Collect(sn.Values(name))
		if !slices.Equal(values, slices.Sorted(maps.Keys(want))) {
			m.t.Fatalf("index %s has values %v, want %v", name, values, want)
		}
		for value, wanted := range want {
			var got []string
			objects, err := sn.By(name, value)
			check.NoError(m.t, err)
			for o := range objects {
				got = append(got, o.Key())
			}
			if !slices.Equal(got, wanted) {
				m.t.Fatalf("index %s: %s is %v, want %v", name, value, got, wanted)
			}
		}
	}
}

// nodeOf returns the node in an object's bytes.
func (m *model) nodeOf(o *Object) string {
	raw, err := o.AppendRaw(nil)
	check.NoError(m.t, err)
	pod := new(corev1.Pod)
	if m.enc == wire.Protobuf {
		err = pod.Unmarshal(raw)
	} else {
		err = json.Unmarshal(raw, pod)
	}
	check.NoError(m.t, err)
	return pod.Spec.NodeName
}
