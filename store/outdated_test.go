package store

import "testing"

// Of several writers those are told that the server has gone back that have not found it out themselves: once, until they have begun a list.
func TestWhenOutdated(t *testing.T) {
	s := newStore(t, Config{})
	told := map[string]int{}
	writer := func(name string, claim uint8) *Writer {
		w := s.Writer(Scope{Claim: claim})
		w.WhenOutdated(func() { told[name]++ })
		return w
	}
	x, y, z := writer("x", 0), writer("y", 1), writer("z", 2)
	z.WhenOutdated(nil)
	x.BeginReplace(true)
	x.EndReplace("5")
	if told["x"] != 0 || told["y"] != 1 || told["z"] != 0 || x.Outdated() || !y.Outdated() || !z.Outdated() {
		t.Fatalf("told %v; outdated %v %v %v", told, x.Outdated(), y.Outdated(), z.Outdated())
	}
	z.WhenOutdated(func() { told["z"]++ })
	z.BeginReplace(true) // of the same: x is not to list again
	z.EndReplace("6")
	y.BeginReplace(false)
	y.EndReplace("7")
	if told["x"] != 0 || told["y"] != 1 || told["z"] != 1 || x.Outdated() || y.Outdated() || z.Outdated() {
		t.Errorf("told %v; outdated %v %v %v", told, x.Outdated(), y.Outdated(), z.Outdated())
	}
	y.BeginReplace(true)
	if told["x"] != 1 || told["y"] != 1 || told["z"] != 1 || !x.Outdated() || y.Outdated() {
		t.Errorf("after the server went back again: told %v; outdated %v %v", told, x.Outdated(), y.Outdated())
	}
}
