package store

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestAddIndexCatchesUp checks that an index contains the changes that were made while it was
// built, both few and many.
func TestAddIndexCatchesUp(t *testing.T) {
	for _, churn := range []int{0, 3 * dirtySlack} {
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
		s.indexNames["app"] = struct{}{} // as AddIndex does before it builds the index
		b := newIndexBuilder(s, "app", LabelIndex("app"))
		check.ErrorIs(t, s.AddIndex("app", LabelIndex("app")), ErrIndexExists, "while it is built")
		check.NoError(t, b.follow(s.Snapshot()))
		set(1, "b")
		set(2, "")
		set(20, "a")
		for i := range churn { // create and delete
			set(1000+i, "c")
			rv++
			deletePod(t, w, smallPod("", "p"+strconv.Itoa(1000+i), 1000+i, rv, nil, ""))
		}
		deletePod(t, w, smallPod("", "p3", 3, 1_000_000, nil, ""))
		w.Flush()
		set(4, "d") // in the batch, which finish flushes
		check.NoError(t, b.finish())
		if got, _ := byKeys(t, s.Snapshot(), "app", "a"); got != "p0 p20 p5 p6 p7 p8 p9" {
			t.Errorf("churn %d: a is %s", churn, got)
		}
		if got, _ := byKeys(t, s.Snapshot(), "app", "d"); got != "p4" {
			t.Errorf("churn %d: d is %s", churn, got)
		}
		if got := slices.Collect(s.Snapshot().Values("app")); !slices.Equal(got, []string{"", "a", "b", "d"}) {
			t.Errorf("churn %d: values %q", churn, got)
		}
	}
}

// TestEachDifference checks that eachDifference visits exactly the keys whose versions differ in
// two snapshots.
func TestEachDifference(t *testing.T) {
	s, rnd := newStore(t, decodeConfig()), newRand(5)
	w := fillPods(t, s, 40*maxTreeNode)
	for i := range 30 {
		before := s.Snapshot()
		want := map[string]bool{}
		for range rnd.IntN(50) {
			n := rnd.IntN(50 * maxTreeNode)
			name := "p" + strconv.Itoa(n)
			if want[name] = true; rnd.IntN(3) == 0 {
				deletePod(t, w, smallPod("", name, n, 100_000*(i+1), nil, ""))
			} else {
				putPod(t, w, smallPod("", name, n, 100_000*(i+1), nil, ""))
			}
			w.Flush()
		}
		after := s.Snapshot()
		eachDifference(&before.table, &after.table, func(was, is *Object) {
			key := (&Change{Old: was, New: is}).Key()
			a, _ := before.Get(key)
			b, _ := after.Get(key)
			if a != was || b != is || was == is || !want[key] {
				t.Errorf("%s is visited with %v and %v", key, was, is)
			}
			delete(want, key)
		})
		for key := range want { // created and deleted again, or unchanged
			a, _ := before.Get(key)
			if b, _ := after.Get(key); a != b {
				t.Errorf("%s is not visited", key)
			}
		}
	}
}

// checkLabelIndex compares an index with the labels of all objects.
func checkLabelIndex(t *testing.T, snap *Snapshot, index, label string) {
	t.Helper()
	want := map[string][]string{}
	for o := range snap.All() {
		value, _ := o.Label(label)
		want[value] = append(want[value], o.Key())
	}
	for value := range snap.Values(index) {
		if _, ok := want[value]; !ok {
			t.Errorf("index %s has the value %q, which nothing has", index, value)
		}
	}
	for value, keys := range want {
		if got, _ := byKeys(t, snap, index, value); got != strings.Join(keys, " ") {
			t.Errorf("index %s has %s under %q; the table has %s", index, got, value, strings.Join(keys, " "))
		}
	}
}

// TestAddIndexUnreadable checks that AddIndex fails if the batch has an object that the new index
// cannot read. The object must stay in the other indexes.
func TestAddIndexUnreadable(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := s.Writer(Scope{})
	check.NoError(t, s.AddIndex("app", LabelIndex("app")))
	pod := smallPod("", "odd", 1, 1, map[string]string{"app": "a"}, "n")
	// The bytes contain two specs, which the index cannot merge.
	raw := append(podsim.Encode(w.s.Encoding().String(), pod), 0x12, 0x02, 0x52, 0x00)
	put(t, w, raw)
	path, err := wire.CompilePath(wire.Protobuf, reflect.TypeFor[corev1.Pod](), "spec.nodeName")
	check.NoError(t, err)
	var unreadable *IndexError
	if err := s.AddIndex("node", FieldIndex(path)); !errors.As(err, &unreadable) || unreadable.Key != "odd" {
		t.Errorf("%v", err)
	}
	check.NoError(t, s.AddIndex("tier", LabelIndex("app")))
	w.Flush()
	for _, name := range []string{"app", "tier"} {
		if got, _ := byKeys(t, s.Snapshot(), name, "a"); got != "odd" {
			t.Errorf("index %s has %q", name, got)
		}
	}
	putPod(t, w, smallPod("", "odd", 1, 2, map[string]string{"app": "b"}, "n"))
	w.Flush()
	for _, name := range []string{"app", "tier"} {
		checkLabelIndex(t, s.Snapshot(), name, "app")
	}
}

// TestAddIndexFails checks that the error names the object that cannot be read. After the error,
// another index can have the same name.
func TestAddIndexFails(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	m := wire.Meta{Name: []byte("odd")}
	check.NoError(t, w.Put(&m, []byte{0xff, 0xff, 0xff}))
	w.Flush()
	for range 2 {
		var ie *IndexError
		if err := s.AddIndex("app", LabelIndex("app")); !errors.As(err, &ie) || ie.Key != "odd" {
			t.Errorf("%v", err)
		}
	}
}
