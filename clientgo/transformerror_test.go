package clientgo

import (
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/wire"
)

// refusing is a transform that fails for pods whose label v is "bad".
func refusing(obj any) (any, error) {
	if obj.(*corev1.Pod).Labels["v"] == "bad" {
		return nil, errors.New("a bad pod")
	}
	return obj, nil
}

// TestTransformErrorOnRelist checks that an object whose newest version cannot be transformed stays
// as it was before, after a watch and after a relist, and goes when it is deleted.
func TestTransformErrorOnRelist(t *testing.T) {
	defer func(was []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = was }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // one of them waits until some time after the last error
	synctest.Test(t, transformErrorOnRelist)
}

func transformErrorOnRelist(t *testing.T) {
	s := newRecordedInformer(t, NewSharedIndexInformer)
	if err := s.informer.SetTransform(refusing); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		s.source.Add(pod(name, "1"))
	}
	s.start(t)
	s.source.Modify(pod("a", "bad"))
	s.source.ModifyDropWatch(pod("b", "bad"))
	s.source.DeleteDropWatch(pod("c", "1"))
	s.source.ResetWatch()
	s.calls.wait(t, "delete tombstone d/c d/c@3 v=1")
	s.source.watches.wait(t)
	s.source.Modify(pod("a", "2"))
	s.source.Delete(pod("b", "1"))
	s.calls.wait(t, "update d/a@1 v=1 -> d/a@7 v=2")
	s.calls.wait(t, "delete d/b@8 v=1")
	if got := s.calls.all(); len(got) != 6 {
		t.Errorf("told %q", got)
	}
	s.stop()
}

// TestRefusedOnRelist checks the same for a list that has an object which cannot be decoded or
// transformed, and that another object of its name does not keep what is held.
func TestRefusedOnRelist(t *testing.T) {
	for name, test := range map[string]struct {
		pin      bool
		returned bool   // the list is of objects, and not of bytes
		cut      bool   // the bytes cannot be decoded
		restored bool   // the list is of a server that has gone back
		version  string // that is listed where 3 is held
		uid      types.UID
		wantGone bool
	}{
		"bytes":            {version: "4", uid: "uid-1"},
		"an object":        {version: "4", uid: "uid-1", returned: true},
		"not decoded":      {version: "4", uid: "uid-1", cut: true},
		"not pinned":       {version: "4", uid: "uid-1", cut: true, pin: true},
		"after a restore":  {version: "2", uid: "uid-1", restored: true},
		"of another":       {version: "4", uid: "uid-2", wantGone: true},
		"an object, other": {version: "4", uid: "uid-2", returned: true, wantGone: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChangingStore(t, Options{PinDecoded: test.pin})
			sink := c.inf.sink
			if sink.Writer = c.writer; !test.pin {
				sink.transform = refusing
			}
			list := func(p *corev1.Pod, version string, rebase, cut bool) error {
				t.Helper()
				p.ResourceVersion = version
				raw := marshal(t, p)
				var m wire.Meta
				if err := wire.ReadMeta(wire.Protobuf, raw, &m); err != nil {
					t.Fatal(err)
				}
				if cut {
					raw = append(raw, "\x2a\x01"...) // a field that is cut off
				}
				sink.BeginReplace(rebase)
				defer sink.EndReplace("9")
				if test.returned {
					return sink.Take(0, &m, nil, p)
				}
				return sink.Take(0, &m, raw, nil)
			}
			if err := list(pod("a", "1"), "3", false, false); err != nil {
				t.Fatal(err)
			}
			bad := pod("a", "bad")
			bad.UID = test.uid
			if err := list(bad, test.version, test.restored, test.cut); err == nil {
				t.Error("it was taken")
			}
			want := "d/a@3 v=1"
			if test.wantGone {
				want = ""
			}
			if got := shown(c.inf.indexer.List()); got != want {
				t.Errorf("holds %q, want %q", got, want)
			}
		})
	}
}
