package store

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestWhenOutdated checks that the function of each writer is called once when another writer has
// found a restore. A function that is set later must be called immediately.
func TestWhenOutdated(t *testing.T) {
	s := newStore(t, Config{})
	calls := map[string]int{}
	writer := func(name string, owner uint8) *Writer {
		w := s.Writer(Scope{Owner: owner})
		w.WhenOutdated(func() { calls[name]++ })
		return w
	}
	x, y, z := writer("x", 0), writer("y", 1), writer("z", 2)
	z.WhenOutdated(nil)
	x.BeginReplace(true)
	x.EndReplace("5")
	if calls["x"] != 0 || calls["y"] != 1 || calls["z"] != 0 || x.Outdated() || !y.Outdated() || !z.Outdated() {
		t.Fatalf("told %v; outdated %v %v %v", calls, x.Outdated(), y.Outdated(), z.Outdated())
	}
	z.WhenOutdated(func() { calls["z"]++ })
	z.BeginReplace(true) // the same restore: x must not list again
	z.EndReplace("6")
	y.BeginReplace(false)
	y.EndReplace("7")
	if calls["x"] != 0 || calls["y"] != 1 || calls["z"] != 1 || x.Outdated() || y.Outdated() || z.Outdated() {
		t.Errorf("told %v; outdated %v %v %v", calls, x.Outdated(), y.Outdated(), z.Outdated())
	}
	y.BeginReplace(true)
	if calls["x"] != 1 || calls["y"] != 1 || calls["z"] != 1 || !x.Outdated() || y.Outdated() {
		t.Errorf("after the server went back again: told %v; outdated %v %v", calls, x.Outdated(), y.Outdated())
	}
}

// TestAsks checks a list that was requested before another writer found that the server went back.
// The list may be from before or after the restore. So it must change nothing, and the writer must
// request another list. In particular, it must not delete an object of its writer alone.
func TestAsks(t *testing.T) {
	s := newStore(t, Config{})
	x, y := s.Writer(Scope{Owner: 0}), s.Writer(Scope{Owner: 1})
	x.BeginReplace(false)
	x.EndReplace("5")
	y.BeginReplace(false)
	putPod(t, y, smallPod("ns", "b", 1, 2, nil, ""))
	y.EndReplace("5")
	y.ListRequested()
	x.ListRequested()
	x.BeginReplace(true)
	putPod(t, x, smallPod("ns", "a", 1, 3, nil, ""))
	x.EndReplace("3")
	y.BeginReplace(false)
	putPod(t, y, smallPod("ns", "a", 1, 4, nil, ""))
	putPod(t, y, smallPod("ns", "b", 1, 2, nil, ""))
	y.EndReplace("5")
	if _, ok := s.Get("ns/b"); !ok {
		t.Error("a list of before has deleted b, which it contains")
	}
	version := func() string {
		o, _ := s.Get("ns/a")
		return o.ResourceVersion()
	}
	if got := version(); got != "3" || x.Outdated() || !y.Outdated() {
		t.Fatalf("after a list of before: a is at %s, x is outdated: %v, y: %v", got, x.Outdated(), y.Outdated())
	}
	y.ListRequested()
	y.BeginReplace(false)
	putPod(t, y, smallPod("ns", "a", 1, 4, nil, ""))
	y.EndReplace("5")
	if got := version(); got != "4" || y.Outdated() {
		t.Errorf("after a list of now: a is at %s, y is outdated: %v", got, y.Outdated())
	}
}

// TestRemoveOutdated checks that a removed writer leaves no object, even if another writer has
// found that the server went back. It must not matter whether the removed writer had requested a
// list before.
func TestRemoveOutdated(t *testing.T) {
	for name, ask := range map[string]func(*Writer){
		"asks for nothing": func(*Writer) {},
		"has asked":        (*Writer).ListRequested,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, Config{})
			x, y := s.Writer(Scope{Namespace: "x", Owner: 0}), s.Writer(Scope{Namespace: "y", Owner: 1})
			x.BeginReplace(false)
			putPod(t, x, smallPod("x", "a", 1, 4, nil, ""))
			x.EndReplace("5")
			ask(x)
			y.BeginReplace(true)
			y.EndReplace("3")
			x.Remove()
			check.Equal(t, s.Len(), 0, "objects are left")
		})
	}
}
