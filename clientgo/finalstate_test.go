package clientgo

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestFinalStates checks that OnDelete receives the state in the DELETED event, transformed like
// all others, as with client-go, for any change of uids by the transform.
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

// TestFinalStatesOfBytes checks the same for captured events, and that the last version replaces an
// unknown state.
func TestFinalStatesOfBytes(t *testing.T) {
	bad := errors.New("not this one")
	mark := func(obj any) (any, error) {
		obj.(*corev1.Pod).Labels["v"] += "t"
		return obj, nil
	}
	for name, test := range map[string]struct {
		transform cache.TransformFunc
		final     []byte // nil: that of version 9
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
			held := c.change(t, "a")
			gone := pod("a", "9")
			gone.ResourceVersion = "5"
			raw := marshal(t, gone)
			var m wire.Meta
			check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
			if test.final != nil {
				raw = test.final
			}
			c.inf.sink.transform = test.transform
			if err := c.inf.sink.Take(wire.Deleted, &m, raw, nil); err != nil {
				t.Fatal(err)
			}
			got, err := c.inf.indexer.reader.deletedValue(&store.Change{Old: held, ResourceVersion: 5})
			if want := "d/a@5 " + test.want; err != nil || show(got) != want {
				t.Errorf("got %s, %v; want %s", show(got), err, want)
			}
			second, err := c.inf.indexer.reader.deletedValue(&store.Change{Old: held, ResourceVersion: 5})
			if second.(*corev1.Pod).Labels["v"] = "changed"; err != nil || test.transform == nil && got == second {
				t.Errorf("the same for another handler: %v", err)
			}
		})
	}
}

// TestFinalStatesAreBounded checks that the newest states are kept, up to the limits in number and
// bytes, and that none is kept permanently.
func TestFinalStatesAreBounded(t *testing.T) { synctest.Test(t, finalStatesAreBounded) }

func finalStatesAreBounded(t *testing.T) {
	var f finalStates
	put := func(i, size int) {
		m := wire.Meta{Namespace: []byte("d"), Name: []byte("a"), ResourceVersion: fmt.Append(nil, i)}
		f.putRaw(&m, nil, make([]byte, size))
	}
	kept := func(first, last int) (n int) {
		for i := first; i <= last; i++ {
			if s, ok := f.get("d/a", uint64(i), 0); ok && len(s.raw) > 0 {
				n++
			}
		}
		return n
	}
	for i := range 1000 {
		put(1+i, 10)
	}
	if kept(1, 1000-maxFinalStates) != 0 || kept(1001-maxFinalStates, 1000) != maxFinalStates {
		t.Errorf("%d of the last and %d of those before are kept", kept(1001-maxFinalStates, 1000), kept(1, 1000-maxFinalStates))
	}
	for i := range 1000 {
		put(2001+i, maxFinalStateBytes/10)
	}
	if n := kept(1, 3000); n != 10 || kept(2991, 3000) != 10 || f.bytes > maxFinalStateBytes {
		t.Errorf("%d are kept, %d bytes", n, f.bytes)
	}
	if put(4000, maxFinalStateBytes+1); kept(4000, 4000) != 0 || kept(2991, 3000) != 10 {
		t.Error("one that is too large is kept, or drives out others")
	}
	time.Sleep(finalStateIdle - time.Second)
	if put(4001, 10); kept(2991, 3000) != 9 {
		t.Error("some are gone too soon")
	}
	time.Sleep(finalStateIdle - time.Second)
	if kept(4001, 4001) != 1 {
		t.Error("the last is gone too soon")
	}
	time.Sleep(2 * time.Second)
	if kept(1, 5000) != 0 || len(f.states) != 0 || f.timer != nil {
		t.Error("some are kept for good")
	}
	put(4002, 10)
	f.close()
	if put(4003, 10); kept(1, 5000) != 0 {
		t.Error("some are kept when all has ended")
	}
}

// TestFinalValuesAreBounded checks that the limit in bytes also applies to states that are values,
// and that the informer's memory includes them.
func TestFinalValuesAreBounded(t *testing.T) {
	const size = maxFinalStateBytes / 10
	c := newChangingStore(t, Options{})
	f := &c.inf.sink.finals
	defer f.close()
	m := wire.Meta{Namespace: []byte("d"), Name: []byte("a")}
	put := func(i, bytes int) bool {
		m.ResourceVersion = fmt.Append(nil, i)
		f.putValue(&m, nil, &slimPod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", bytes)}}})
		_, ok := f.get("d/a", uint64(i), 0)
		return ok
	}
	empty := c.inf.store.Memory().Deletions
	for i := range 100 {
		if !put(1+i, size) {
			t.Fatalf("the newest, %d, is not kept", i)
		}
	}
	kept := 0
	for i := range 100 {
		if _, ok := f.get("d/a", uint64(1+i), 0); ok {
			kept++
		}
	}
	if held := c.inf.store.Memory().Deletions - empty; kept < 8 || kept > 10 || held < int64(kept*size) || held > 2*maxFinalStateBytes {
		t.Errorf("%d values of %d bytes are kept, and %d bytes told", kept, size, held)
	}
	if put(200, maxFinalStateBytes) {
		t.Error("one that is too large is kept")
	}
}
