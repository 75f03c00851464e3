package store

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
)

func byKeys(t *testing.T, sn *Snapshot, index, value string) (string, error) {
	t.Helper()
	objects, err := sn.By(index, value)
	var keys []string
	for o := range objects {
		keys = append(keys, o.Key())
	}
	return strings.Join(keys, " "), err
}

// TestAppendByNow checks that AppendBy returns the objects of one moment, even if another query has
// moved the index beyond the snapshot that AppendBy took.
func TestAppendByNow(t *testing.T) {
	s := newStore(t, decodeConfig())
	w, rv := s.Writer(Scope{}), 0
	set := func(name string, uid int, state string) {
		rv++
		putPod(t, w, smallPod("", name, uid, rv, map[string]string{"state": state}, ""))
		w.Flush()
	}
	if err := s.AddIndex("state", FuncIndex(func(v any) ([]string, error) { return []string{v.(*corev1.Pod).Labels["state"]}, nil })); err != nil {
		t.Fatal(err)
	}
	set("x", 1, "active")
	if got, _ := byKeys(t, s.Snapshot(), "state", "active"); got != "x" {
		t.Fatalf("has %q", got)
	}
	before := s.Snapshot()
	set("y", 2, "active")
	set("x", 1, "idle")
	if got, _ := byKeys(t, s.Snapshot(), "state", "active"); got != "y" {
		t.Fatalf("has %q", got)
	}
	found, err := s.funcIndex("state").appendNow(nil, before, []string{"active", "idle"})
	var keys []string
	for _, o := range found {
		keys = append(keys, o.Key())
	}
	if err != nil || strings.Join(keys, " ") != "y x" {
		t.Errorf("has %q, %v", keys, err)
	}
}

func TestFuncIndexFailures(t *testing.T) {
	s := newStore(t, decodeConfig())
	calls := 0
	bad := errors.New("bad")
	err := s.AddIndex("f", FuncIndex(func(v any) ([]string, error) {
		calls++
		switch pod := v.(*corev1.Pod); pod.Labels["do"] {
		case "fail":
			return nil, bad
		case "panic":
			panic("at " + pod.Name)
		}
		return []string{"all", "all"}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	w := fillPods(t, s, 3)
	putPod(t, w, smallPod("", "p1", 1, 200, map[string]string{"do": "fail"}, ""))
	w.Flush()
	if calls != 0 {
		t.Errorf("%d calls before the first query", calls)
	}
	keys, err := byKeys(t, s.Snapshot(), "f", "all")
	var ie *IndexError
	if keys != "p0 p2" || !errors.Is(err, bad) || !errors.As(err, &ie) || ie.Key != "p1" || ie.Index != "f" {
		t.Errorf("%q, %v", keys, err)
	}
	putPod(t, w, smallPod("", "p2", 2, 201, map[string]string{"do": "panic"}, ""))
	w.Flush()
	keys, err = byKeys(t, s.Snapshot(), "f", "all")
	if keys != "p0" || !errors.As(err, &ie) || ie.More != 1 || !strings.Contains(err.Error(), "p1 (and 1 more)") {
		t.Errorf("%q, %v", keys, err)
	}
	putPod(t, w, smallPod("", "p1", 1, 202, nil, ""))
	w.Flush()
	keys, err = byKeys(t, s.Snapshot(), "f", "all")
	if keys != "p0 p1" || err == nil || !strings.Contains(err.Error(), "p2: panic: at p2") {
		t.Errorf("%q, %v", keys, err)
	}
	deletePod(t, w, smallPod("", "p2", 2, 203, nil, ""))
	w.Flush()
	before := calls
	keys, err = byKeys(t, s.Snapshot(), "f", "all")
	if keys != "p0 p1" || err != nil || calls != before {
		t.Errorf("%q, %v, %d calls for a deletion", keys, err, calls-before)
	}
}

// TestFuncIndexOfUndecoded checks that an object that cannot be decoded is in no index, and that
// queries return no error because of it. When the object can be decoded, it must be in the index.
func TestFuncIndexOfUndecoded(t *testing.T) {
	cfg := decodeConfig()
	broken := errors.New("broken")
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		v, err := decodePod(raw, earlier)
		if err == nil && v.(*corev1.Pod).Labels["broken"] != "" {
			err = broken
		}
		return v, err
	}
	s := newStore(t, cfg)
	if err := s.AddIndex("all", FuncIndex(func(any) ([]string, error) { return []string{"1"}, nil })); err != nil {
		t.Fatal(err)
	}
	w := fillPods(t, s, 3)
	putPod(t, w, smallPod("", "p1", 1, 200, map[string]string{"broken": "yes"}, ""))
	w.Flush()
	if keys, err := byKeys(t, s.Snapshot(), "all", "1"); keys != "p0 p2" || err != nil {
		t.Errorf("%q, %v", keys, err)
	}
	putPod(t, w, smallPod("", "p1", 1, 201, nil, ""))
	w.Flush()
	if keys, err := byKeys(t, s.Snapshot(), "all", "1"); keys != "p0 p1 p2" || err != nil {
		t.Errorf("once it can be decoded: %q, %v", keys, err)
	}
}

// TestFuncIndexAndSnapshots queries with snapshots newer and older than the index.
func TestFuncIndexAndSnapshots(t *testing.T) {
	s := newStore(t, decodeConfig())
	if err := s.AddIndex("app", FuncIndex(func(v any) ([]string, error) {
		return []string{v.(*corev1.Pod).Labels["app"]}, nil
	})); err != nil {
		t.Fatal(err)
	}
	w := s.Writer(Scope{})
	set := func(name, app string, rv int) {
		putPod(t, w, smallPod("", name, 1, rv, map[string]string{"app": app}, ""))
		w.Flush()
	}
	check := func(sn *Snapshot, value, want string) {
		t.Helper()
		if got, err := byKeys(t, sn, "app", value); got != want || err != nil {
			t.Errorf("revision %d, %s: %q (%v), want %q", sn.Revision(), value, got, err, want)
		}
	}
	set("a", "x", 1)
	set("b", "x", 2)
	first := s.Snapshot()
	check(first, "x", "a b")
	set("a", "y", 3)
	second := s.Snapshot()
	set("b", "y", 4)
	set("c", "y", 5)
	check(second, "y", "a") // b and c have not changed yet in this snapshot
	check(second, "x", "b")
	check(s.Snapshot(), "y", "a b c")
	check(s.Snapshot(), "x", "")
	check(second, "y", "a") // b has y now, but not in this snapshot
	check(first, "y", "")
	check(second, "x", "b") // b had x in this snapshot
	check(first, "x", "a b")
	deletePod(t, w, smallPod("", "a", 1, 6, nil, ""))
	w.Flush()
	check(s.Snapshot(), "y", "b c")
	check(first, "x", "a b") // a was deleted later
	check(second, "y", "a")
	for i, want := range []string{"x", "x y", "y"} {
		if got := strings.Join(slices.Collect([]*Snapshot{first, second, s.Snapshot()}[i].Values("app")), " "); got != want {
			t.Errorf("snapshot %d has the values %q, want %q", i+1, got, want)
		}
	}
}

// TestFuncIndexFailsForOlder checks a query of a snapshot that is older than the index. The query
// must report exactly the objects of that snapshot for which the function fails.
func TestFuncIndexFailsForOlder(t *testing.T) {
	s := newStore(t, decodeConfig())
	bad := errors.New("bad")
	if err := s.AddIndex("all", FuncIndex(func(v any) ([]string, error) {
		if v.(*corev1.Pod).Labels["bad"] != "" {
			return nil, bad
		}
		return []string{"1"}, nil
	})); err != nil {
		t.Fatal(err)
	}
	w := fillPods(t, s, 3)
	put := func(name string, rv int, labels map[string]string) {
		putPod(t, w, smallPod("", name, 1, rv, labels, ""))
		w.Flush()
	}
	put("p1", 200, map[string]string{"bad": "yes"})
	put("p2", 201, map[string]string{"bad": "yes"})
	failing := s.Snapshot()
	put("p1", 202, nil)
	put("p2", 203, nil)
	if keys, err := byKeys(t, s.Snapshot(), "all", "1"); keys != "p0 p1 p2" || err != nil {
		t.Fatalf("%q, %v", keys, err)
	}
	keys, err := byKeys(t, failing, "all", "1")
	var failed *IndexError
	if keys != "p0" || !errors.As(err, &failed) || failed.Key != "p1" || failed.More != 1 || !errors.Is(err, bad) {
		t.Errorf("an older snapshot has %q, %v", keys, err)
	}
}

// TestFuncIndexForgets checks that an index records a limited number of changed keys between two
// queries.
func TestFuncIndexForgets(t *testing.T) {
	s := newStore(t, decodeConfig())
	if err := s.AddIndex("one", FuncIndex(func(any) ([]string, error) { return []string{"1"}, nil })); err != nil {
		t.Fatal(err)
	}
	w := fillPods(t, s, 3)
	if got, _ := byKeys(t, s.Snapshot(), "one", "1"); got != "p0 p1 p2" {
		t.Fatal(got)
	}
	for i := range 3 * dirtySlack {
		pod := smallPod("", "q"+strconv.Itoa(i), i, 1000+2*i, nil, "")
		putPod(t, w, pod)
		pod.ResourceVersion = strconv.Itoa(1001 + 2*i)
		deletePod(t, w, pod)
	}
	w.Flush()
	x := s.funcs["one"]
	if !x.dirty.lost || x.dirty.revs != nil {
		t.Errorf("%d keys are kept for an index that is not queried", len(x.dirty.revs))
	}
	putPod(t, w, smallPod("", "p4", 4, 9000, nil, ""))
	w.Flush()
	if got, _ := byKeys(t, s.Snapshot(), "one", "1"); got != "p0 p1 p2 p4" {
		t.Error(got)
	}
}

func TestIndexNames(t *testing.T) {
	s := newStore(t, Config{})
	if err := s.AddIndex("f", FuncIndex(func(any) ([]string, error) { return nil, nil })); !errors.Is(err, ErrNoDecoder) {
		t.Errorf("function without a decoder: %v", err)
	}
	s = newStore(t, decodeConfig())
	f := FuncIndex(func(any) ([]string, error) { return nil, nil })
	if err := errors.Join(s.AddIndex("a", f), s.AddIndex("b", LabelIndex("b"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		for _, ix := range []Index{f, LabelIndex("b")} {
			if err := s.AddIndex(name, ix); !errors.Is(err, ErrIndexExists) {
				t.Errorf("%s a second time: %v", name, err)
			}
		}
	}
	if _, err := s.Snapshot().By("c", ""); !errors.Is(err, ErrUnknownIndex) {
		t.Errorf("unknown index: %v", err)
	}
	for v := range s.Snapshot().Values("c") {
		t.Errorf("unknown index has %s", v)
	}
}
