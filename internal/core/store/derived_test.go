package store

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/testing/check"
)

func putOnNode(t *testing.T, w *Writer, name, node string, rv int) *Object {
	t.Helper()
	putPod(t, w, smallPod("", name, 1, rv, nil, node))
	w.Flush()
	o, _ := w.s.Get(name)
	return o
}

// TestDerive checks that an index uses derived values instead of decoding an object again, unless
// the object has changed or was deleted after Derive. If the function panics in Derive, the query
// must return the panic as an error.
func TestDerive(t *testing.T) {
	decodes := 0
	cfg := decodeConfig()
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		decodes++
		return decodePod(raw, earlier)
	}
	s := newStore(t, cfg)
	calls := 0
	check.NoError(t, s.AddIndex("node", FuncIndex(func(v any) ([]string, error) {
		calls++
		if node := v.(*corev1.Pod).Spec.NodeName; node != "panic" {
			return []string{node}, nil
		}
		panic("at " + v.(*corev1.Pod).Name)
	})))
	w := s.Writer(Scope{})
	set := func(name, node string, rv int) *Object { return putOnNode(t, w, name, node, rv) }
	derive := func(o *Object, name, node string) {
		s.Derive(o, smallPod("", name, 1, 0, nil, node))
	}
	expect := func(what, node, keys string, wantDecodes int) {
		t.Helper()
		decodes = 0
		if got, err := byKeys(t, s.Snapshot(), "node", node); got != keys || err != nil || decodes != wantDecodes {
			t.Errorf("%s: %s has %q (%v), want %q; %d decodings, want %d", what, node, got, err, keys, decodes, wantDecodes)
		}
	}
	a, b, c, gone := set("a", "x", 1), set("b", "x", 2), set("c", "x", 3), set("gone", "x", 4)
	for _, o := range []*Object{a, b, c, gone, a, b, c} {
		derive(o, o.Name(), "x")
	}
	check.Equal(t, calls, 4, "calls for 4 versions")
	a2 := set("a", "y", 5)
	deletePod(t, w, smallPod("", "gone", 1, 6, nil, "x"))
	w.Flush()
	expect("first query", "x", "b c", 1) // a has changed since Derive
	expect("again", "y", "a", 0)
	if x := s.funcs["node"]; x.derived.values != nil {
		t.Errorf("%v is left", x.derived.values)
	}

	snap := s.Snapshot()
	derive(a2, "a", "y") // the values of a2 are already derived
	derive(a, "a", "z")  // a is no longer in the table
	b2, c2 := set("b", "y", 7), set("c", "y", 8)
	derive(b2, "b", "y")
	if got, err := byKeys(t, snap, "node", "x"); got != "b c" || err != nil {
		t.Errorf("an older snapshot has %q (%v)", got, err)
	}
	expect("after two changes", "y", "a b c", 1) // c was not derived

	derive(c2, "c", "y")
	set("c", "panic", 9)
	o, _ := s.Get("c")
	derive(o, "c", "panic")
	if _, err := byKeys(t, s.Snapshot(), "node", "y"); err == nil || !strings.Contains(err.Error(), "panic: at c") {
		t.Errorf("the function panics, and the query says %v", err)
	}
	set("c", "x", 10)
	expect("when it does not panic any more", "x", "c", 1)
}

// TestDeriveIsBounded checks an index that is never queried. Derive must keep the values of at most
// about dirtySlack deleted objects. DropDerived must drop the values of an object.
func TestDeriveIsBounded(t *testing.T) {
	s := newStore(t, decodeConfig())
	check.NoError(t, s.AddIndex("one", FuncIndex(func(any) ([]string, error) { return []string{"1"}, nil })))
	x, w := s.funcs["one"], s.Writer(Scope{})
	most := 0
	for i := range 3 * dirtySlack {
		pod := smallPod("", "q"+strconv.Itoa(i), i, 1+2*i, nil, "")
		putPod(t, w, pod)
		w.Flush()
		o, _ := s.Get(pod.Name)
		s.Derive(o, pod)
		most = max(most, len(x.derived.values))
		pod.ResourceVersion = strconv.Itoa(2 + 2*i)
		deletePod(t, w, pod)
		w.Flush()
		if i%2 == 0 {
			s.DropDerived(pod.Name)
		}
	}
	if most > dirtySlack+2 {
		t.Errorf("%d objects that are gone are still there", most)
	}
	for key := range x.derived.values {
		s.DropDerived(key)
	}
	check.Equal(t, len(x.derived.values), 0, "are left")
}

// TestDeriveOfBlocked checks that Derive waits for deriveWait if an index function blocks, and then
// returns false. While the function blocks, Derive must neither wait nor call functions.
func TestDeriveOfBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, decodeConfig())
		release, calls := make(chan struct{}), 0
		check.NoError(t, s.AddIndex("name", FuncIndex(func(v any) ([]string, error) {
			if calls++; v.(*corev1.Pod).Name == "p1" {
				<-release
			}
			return []string{v.(*corev1.Pod).Name}, nil
		})))
		fillPods(t, s, 4)
		derive := func(name string) bool {
			o, _ := s.Get(name)
			return s.Derive(o, smallPod("", name, 1, 0, nil, ""))
		}
		begin := time.Now()
		if !derive("p0") || derive("p1") || !derive("p2") || !derive("p1") {
			t.Error("only the function that blocks at p1 still looks at it")
		}
		check.Equal(t, time.Since(begin), deriveWait, "waited for")
		close(release)
		synctest.Wait()
		if !derive("p3") || calls != 3 || s.blocked.Load() != 0 {
			t.Errorf("%d calls, want those for p0, p1 and p3", calls)
		}
		if got, err := byKeys(t, s.Snapshot(), "name", "p1"); got != "p1" || err != nil || calls != 4 {
			t.Errorf("%q (%v) after %d calls", got, err, calls)
		}
	})
}
