package store

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/wire"
)

// TestAddIndexCatchesUp: what changes while an index is built is in it, few
// changes or so many that it has to be built again.
func TestAddIndexCatchesUp(t *testing.T) {
	for _, churn := range []int{0, 2 * buildRest, 3 * dirtySlack} {
		s := newStore(t, decodeConfig())
		w := s.Writer(Scope{})
		rv := 0
		set := func(i int, app string) {
			rv++
			putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, rv, map[string]string{"app": app}, ""))
		}
		for i := range 10 {
			set(i, "a")
		}
		w.Flush()
		b, err := s.startIndex("app", LabelIndex("app"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AddIndex("app", LabelIndex("app")); !errors.Is(err, ErrIndexExists) {
			t.Errorf("while it is built: %v", err)
		}
		set(1, "b")
		set(2, "")
		set(20, "a")
		for i := range churn { // come and go
			set(1000+i, "c")
			rv++
			deletePod(t, w, smallPod("", "p"+strconv.Itoa(1000+i), 1000+i, rv, nil, ""))
		}
		deletePod(t, w, smallPod("", "p3", 3, 1_000_000, nil, ""))
		w.Flush()
		set(4, "d") // prepared without the index, applied with it
		if err := b.finish(); err != nil {
			t.Fatal(err)
		}
		if got, _ := byKeys(t, s.Snapshot(), "app", "a"); got != "p0 p20 p4 p5 p6 p7 p8 p9" {
			t.Errorf("churn %d: a is %s", churn, got)
		}
		w.Flush()
		if got, _ := byKeys(t, s.Snapshot(), "app", "d"); got != "p4" {
			t.Errorf("churn %d: d is %s", churn, got)
		}
		if got := slices.Collect(s.Snapshot().Values("app")); !slices.Equal(got, []string{"", "a", "b", "d"}) {
			t.Errorf("churn %d: values %q", churn, got)
		}
		if len(s.log.dirty) != 0 {
			t.Error("changes are still collected")
		}
	}
}

// TestAddIndexFails: an object that cannot be read is named, and the name of the
// index is free again.
func TestAddIndexFails(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	m := wire.Meta{Name: []byte("odd")}
	if err := w.Put(&m, []byte{0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	for range 2 {
		var ie *IndexError
		if err := s.AddIndex("app", LabelIndex("app")); !errors.As(err, &ie) || ie.Key != "odd" {
			t.Errorf("%v", err)
		}
	}
}
