package store

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// formFast is the first byte of what a fast pack makes of a pod.
const formFast = 1

// TestFastPack: what comes fast while a cursor is behind is packed fast; a list never is, and
// neither is what comes a while later.
func TestFastPack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Encoding: wire.Protobuf})
		defer s.Close()
		w, pods, version := s.Writer(Scope{}), podsim.New(50, 1), 1000
		change := func(n int) {
			for i := range n {
				version++
				pod := pods.Pod(i % pods.Len())
				pod.ResourceVersion = strconv.Itoa(version)
				putPod(t, w, pod)
			}
			w.Flush()
		}
		packs := func() (fast, well int) {
			for o := range s.Snapshot().All() {
				if o.packed[0] == formFast {
					fast++
				} else {
					well++
				}
				pod := pods.Pod(0)
				raw, err := o.AppendRaw(nil)
				if err == nil {
					err = pod.Unmarshal(raw)
				}
				if err != nil || pod.Namespace+"/"+pod.Name != o.Key() {
					t.Fatalf("%s does not come back: %v", o.Key(), err)
				}
			}
			return fast, well
		}
		expect := func(when string, fast, well int) {
			t.Helper()
			if q, g := packs(); q != fast || g != well {
				t.Errorf("%s %d are packed fast and %d well, want %d and %d", when, q, g, fast, well)
			}
		}
		c := s.Cursor()
		defer c.Close()
		w.BeginReplace(false)
		change(50)
		change(2 * behindBy)
		expect("after a list", 0, 50)
		w.EndReplace(strconv.Itoa(version))
		drain(c)
		change(200)
		expect("with a cursor that keeps up", 0, 50)
		change(behindBy)
		change(50)
		expect("with a cursor that is behind", 50, 0)
		time.Sleep(2 * fastLasts)
		change(5)
		expect("a while later", 45, 5)
	})
}

// TestBehind: a cursor that is being read is behind from behindBy changes on, until it has fewer
// than caughtUp to see.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in real time a slow machine makes the cursor look blocked
		s := New(Config{Encoding: wire.Protobuf})
		defer s.Close()
		w, version := s.Writer(Scope{}), 0
		change := func(n int) {
			for range n {
				version++
				putPod(t, w, smallPod("d", "a", 1, version, nil, ""))
				w.Flush()
			}
		}
		c := s.Cursor()
		for _, step := range []struct {
			put, read int
			behind    bool
		}{
			{1, 1, false}, {behindBy - 1, 0, false}, {1, 0, true}, {1, behindBy + 1 - caughtUp, true}, {1, 3, true}, {1, 0, false}, {1, 0, false},
		} {
			change(step.put)
			if behind, _ := w.Behind(); behind != step.behind {
				t.Errorf("after %d versions: %v", version, behind)
			}
			c.Next(make([]Change, step.read))
		}
		change(behindBy)
		if behind, read := w.Behind(); !behind || read != behindBy+5-caughtUp {
			t.Errorf("%v after reading %d", behind, read)
		}
		c.Close()
		if behind, _ := w.Behind(); behind {
			t.Error("a cursor that is closed is behind")
		}
	})
}

// TestFirstObjectsArePackedToo: those that came before there was a dictionary are
// packed when it is made, if their batch is not applied yet.
func TestFirstObjectsArePackedToo(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	w := s.Writer(Scope{})
	for _, raw := range podsim.Spread(wire.Protobuf.String(), 20) {
		put(t, w, raw)
	}
	w.Flush()
	for o := range s.Snapshot().All() {
		if o.layout.dict == nil || len(o.packed) > o.Size()/2 {
			t.Errorf("%s takes %d of %d bytes", o.Key(), len(o.packed), o.Size())
		}
	}
}
