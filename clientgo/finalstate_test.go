package clientgo

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestFinalStates checks that OnDelete receives the transformed state of the DELETED event, even if
// the transform changes the uid. client-go's informer does the same.
func TestFinalStates(t *testing.T) {
	for maker, make := range bothConstructors {
		for name, uid := range map[string]types.UID{"the server's uid": "uid-1", "no uid": "", "another uid": "uid-2"} {
			t.Run(maker+", "+name, func(t *testing.T) {
				s := newRecordedInformer(t, make)
				check.NoError(t, s.informer.SetTransform(func(obj any) (any, error) {
					p := obj.(*corev1.Pod).DeepCopy()
					p.Labels["v"], p.UID = "t"+p.Labels["v"], uid
					return p, nil
				}))
				s.source.Add(pod("a", "1"))
				s.start(t)
				s.calls.waitCount(t, 1)
				s.source.Delete(pod("a", "9"))
				s.calls.wait(t, "delete d/a@2 v=t9")
			})
		}
	}
}

// TestFinalStatesOfBytes checks that OnDelete receives the transformed state of a captured DELETED
// event. If this state cannot be decoded or transformed, OnDelete must receive the last stored
// version.
func TestFinalStatesOfBytes(t *testing.T) {
	bad := errors.New("not this one")
	mark := func(obj any) (any, error) {
		obj.(*corev1.Pod).Labels["v"] += "t"
		return obj, nil
	}
	for name, test := range map[string]struct {
		transform cache.TransformFunc
		final     []byte // nil means a pod with v=9
		want      string
	}{
		"as it came":            {nil, nil, "v=9"},
		"transformed":           {mark, nil, "v=9t"},
		"not to be transformed": {func(any) (any, error) { return nil, bad }, nil, "v=v"},
		"no bytes":              {nil, []byte{}, "v=v"},
		"not to be decoded":     {nil, []byte{0x0b}, "v=v"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChangingStore(t, Options{})
			c.change(t, "a")
			gone := pod("a", "9")
			gone.ResourceVersion = "5"
			raw := marshal(t, gone)
			var m wire.Meta
			check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
			if test.final != nil {
				raw = test.final
			}
			c.inf.sink.transform = test.transform
			changes := c.changes(func() { check.NoError(t, c.inf.sink.Take(wire.Deleted, &m, raw, nil)) })
			got, err := c.inf.indexer.reader.deletedValue(&changes[0])
			if want := "d/a@5 " + test.want; len(changes) != 1 || err != nil || show(got) != want {
				t.Errorf("%d changes; got %s, %v; want %s", len(changes), show(got), err, want)
			}
		})
	}
}
