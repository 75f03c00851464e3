package store

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestFinalState checks that the change of a deletion contains the state in which the object was
// deleted, either packed or as a Go value. The log must count the bytes of that state. A cursor
// that has fallen behind the log must not receive the state.
func TestFinalState(t *testing.T) {
	cfg := decodeConfig()
	cfg.LogBytes = 20_000
	s := newStore(t, cfg)
	w := s.Writer(Scope{})
	c, behind := s.NotifyingCursor(nil, nil), s.NotifyingCursor(nil, nil)
	ends := func(c *Cursor) (all []Change) {
		for _, ch := range drain(c) {
			if ch.Type() == Deleted {
				all = append(all, ch)
			}
		}
		return all
	}
	end := func(name string, rv int, as func(m *wire.Meta, raw []byte, pod *corev1.Pod) error) {
		t.Helper()
		putPod(t, w, smallPod("", name, rv, rv, nil, "before"))
		pod := smallPod("", name, rv, rv+1, nil, "after")
		raw := podsim.Encode(s.Encoding().String(), pod)
		var m wire.Meta
		check.NoError(t, wire.ReadMeta(s.Encoding(), raw, &m))
		check.NoError(t, as(&m, raw, pod))
		check.NoError(t, as(&m, raw, pod)) // a repeated event
		w.Flush()
	}
	_ = ends(c)
	before := s.Memory().Log
	end("packed", 1, func(m *wire.Meta, raw []byte, _ *corev1.Pod) error { return w.DeleteAs(m, raw, nil) })
	end("value", 3, func(m *wire.Meta, _ []byte, pod *corev1.Pod) error { return w.DeleteAs(m, nil, pod) })
	end("unknown", 5, func(m *wire.Meta, raw []byte, _ *corev1.Pod) error { return w.Delete(m, raw) })
	bytes := s.Memory().Log - before
	got := ends(c)
	for i, want := range []string{"after", "after", ""} {
		var node string
		if final := got[i].Final; final != nil {
			value, err := final.Decoded()
			check.NoError(t, err)
			node = value.(*corev1.Pod).Spec.NodeName
			bytes -= final.Footprint()
			check.Equal(t, final.ResourceVersion(), strconv.Itoa(2*i+2), "the final state's version")
		}
		check.Equal(t, node, want, "the final state of %s", got[i].Key())
		bytes -= got[i].Old.Footprint()
	}
	if len(got) != 3 || bytes < 0 {
		t.Errorf("%d ends; the log counts %d bytes too few", len(got), -bytes)
	}
	for i := range 200 {
		putPod(t, w, smallPod("", "other", 100, 100+i, nil, ""))
		w.Flush()
	}
	got = ends(behind)
	for _, ch := range got {
		if ch.Final != nil {
			t.Error("a final state of a change that the log has dropped")
		}
	}
	check.Equal(t, len(got), 3, "ends that the other cursor sees")
}

// TestDeletionOfUnknown checks that DeleteAs records the deletion of an object that the store does
// not have, except during a replace and for a repeated event. The deletion must change neither the
// table nor its indexes, and must not stay in the backlog of a cursor that is behind.
func TestDeletionOfUnknown(t *testing.T) {
	cfg := decodeConfig()
	cfg.LogBytes = 4_000
	s := newStore(t, cfg)
	w := s.Writer(Scope{})
	c, behind := s.NotifyingCursor(nil, nil), s.NotifyingCursor(nil, nil)
	end := func(name string, rv int, value bool) {
		t.Helper()
		pod := smallPod("", name, 1, rv, nil, "node")
		raw := podsim.Encode(s.Encoding().String(), pod)
		var m wire.Meta
		check.NoError(t, wire.ReadMeta(s.Encoding(), raw, &m))
		if !value {
			pod = nil
			check.NoError(t, w.DeleteAs(&m, raw, nil))
		} else {
			check.NoError(t, w.DeleteAs(&m, nil, pod))
		}
		w.Flush()
	}
	end("too-early", 1, false)
	w.BeginReplace(false)
	end("in-a-replace", 3, false)
	putPod(t, w, smallPod("", "kept", 2, 2, nil, "node"))
	w.EndReplace("10")
	end("repeated", 10, false)
	end("packed", 11, false)
	end("packed", 11, false) // a repeated event
	end("value", 12, true)
	var gone []string
	for _, ch := range drain(c) {
		if ch.Type() != Deleted {
			continue
		}
		value, err := ch.Old.Decoded()
		check.NoError(t, err)
		gone = append(gone, value.(*corev1.Pod).Name+"@"+strconv.FormatUint(ch.ResourceVersion, 10))
		if ch.Final != ch.Old || ch.FinalStateUnknown() {
			t.Errorf("%s: the final state is unknown", ch.Key())
		}
	}
	check.Equal(t, strings.Join(gone, " "), "packed@11 value@12", "deletions")
	check.Equal(t, s.Len(), 1, "objects")
	for rv := range 100 {
		end("other", 20+rv, false)
	}
	check.Equal(t, behind.Pending(), 1, "changes in the backlog") // the object that is stored
	if s.Memory().Log > 2*cfg.LogBytes {
		t.Errorf("the log has %d bytes", s.Memory().Log)
	}
}
