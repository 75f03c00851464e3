package store

import (
	"errors"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestDropIndex checks that old snapshots still have a dropped index, and new snapshots do not. The
// dropped index must not use memory, and it must be possible to add it again.
func TestDropIndex(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := s.Writer(Scope{})
	rv := 0
	set := func(i int, app, tier string) {
		rv++
		putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, rv, map[string]string{"app": app, "tier": tier}, ""))
	}
	for _, name := range []string{"app", "tier"} {
		check.NoError(t, s.AddIndex(name, LabelIndex(name)))
	}
	for i := range 10 {
		set(i, "a"+strconv.Itoa(i%2), "t")
	}
	w.Flush()
	before := s.Snapshot()
	if s.IndexBytes("app") == 0 || s.IndexBytes("none") != 0 {
		t.Errorf("app takes %d bytes", s.IndexBytes("app"))
	}
	set(0, "a1", "u") // buffered when the index is dropped
	if !s.DropIndex("app") || s.DropIndex("app") || s.DropIndex("none") {
		t.Error("dropped the wrong ones")
	}
	w.Flush()
	if got, err := byKeys(t, before, "app", "a0"); got != "p0 p2 p4 p6 p8" || err != nil {
		t.Errorf("before: %s, %v", got, err)
	}
	if _, err := byKeys(t, s.Snapshot(), "app", "a0"); !errors.Is(err, ErrUnknownIndex) {
		t.Errorf("after: %v", err)
	}
	if got, err := byKeys(t, s.Snapshot(), "tier", "u"); got != "p0" || err != nil {
		t.Errorf("the other: %s, %v", got, err)
	}
	set(2, "a1", "u")
	w.Flush()
	check.NoError(t, s.AddIndex("app", LabelIndex("app")))
	if got, err := byKeys(t, s.Snapshot(), "app", "a0"); got != "p4 p6 p8" || err != nil {
		t.Errorf("again: %s, %v", got, err)
	}
}

// TestByFrom checks that ByFrom starts at the given key, and that CountBy stops at the given
// number.
func TestByFrom(t *testing.T) {
	s := newStore(t, decodeConfig())
	check.NoError(t, s.AddIndex("app", LabelIndex("app")))
	w := s.Writer(Scope{})
	for i := range 10 {
		putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, i+1, map[string]string{"app": "a" + strconv.Itoa(i%2)}, ""))
	}
	w.Flush()
	sn := s.Snapshot()
	for from, want := range map[string]string{"": "p1 p3 p5 p7 p9", "p4": "p5 p7 p9", "p5": "p5 p7 p9", "p99": "", "q": ""} {
		objects, err := sn.ByFrom("app", "a1", from)
		got := ""
		for o := range objects {
			if got != "" {
				got += " "
			}
			got += o.Key()
		}
		if got != want || err != nil {
			t.Errorf("from %q: %q, %v", from, got, err)
		}
	}
	if _, err := sn.ByFrom("none", "", ""); !errors.Is(err, ErrUnknownIndex) {
		t.Errorf("got %v", err)
	}
	for most, want := range map[int]int{0: 0, 3: 3, 5: 5, 100: 5} {
		if n, ok := sn.CountBy("app", "a1", most); n != want || !ok {
			t.Errorf("at most %d: %d, %v", most, n, ok)
		}
	}
	if _, ok := sn.CountBy("none", "", 1); ok {
		t.Error("counted in an index that is not there")
	}
}
