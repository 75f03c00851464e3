package store

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// changed is the state of TestPatches: the pods that the test changes, and their versions.
type changed struct {
	t       *testing.T
	store   *Store
	writer  *Writer
	version int
	pods    []*corev1.Pod
	objects map[*Object][]byte // the bytes of each version ever seen
}

// put writes a pod at the next version.
func (c *changed) put(pod *corev1.Pod) {
	c.version++
	pod.ResourceVersion = strconv.Itoa(c.version)
	putPod(c.t, c.writer, pod)
}

// see records the versions in the store, and returns how many of them are patches. It checks that
// all versions that it has ever seen can still be read.
func (c *changed) see() (patches int) {
	c.t.Helper()
	for _, pod := range c.pods {
		o, ok := c.store.Get(pod.Namespace + "/" + pod.Name)
		if !ok {
			c.t.Fatalf("%s is gone", pod.Name)
		}
		if o.patched > 0 {
			patches++
		}
		c.objects[o] = podsim.Encode(c.store.Encoding().String(), pod)
	}
	for o, want := range c.objects {
		if raw, err := o.AppendRaw([]byte("before")); err != nil || string(raw) != "before"+string(want) {
			c.t.Fatalf("%s at %s does not come back: %v", o.Key(), o.ResourceVersion(), err)
		}
	}
	return patches
}

// TestPatches checks that the store stores a small change as a patch while updates are frequent. It
// must pack the new version if updates are rare or the change is large. Every version that a caller
// keeps must remain readable.
func TestPatches(t *testing.T) {
	testenv.SkipUnderRace(t)
	for _, of := range []struct {
		what string
		enc  wire.Encoding
		sim  *podsim.Pods
		uid  string // instead of a uuid
	}{
		{"alike", wire.Protobuf, podsim.New(1000, 1), ""},
		{"unlike", wire.Protobuf, podsim.NewUnlike(1000, 1), ""},
		{"random", wire.Protobuf, podsim.NewRandom(1000, 1), ""},
		{"JSON", wire.JSON, podsim.New(1000, 1), ""},
		{"opaque uids", wire.Protobuf, podsim.New(1000, 1), "not a uuid"},
	} {
		t.Run(of.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where no time passes until the test sleeps
				s := New(Config{Encoding: of.enc})
				defer s.Close()
				c := &changed{t: t, store: s, writer: s.Writer(Scope{}), version: 1000, objects: map[*Object][]byte{}}
				rnd := newRand(1)
				for i := range 100 {
					pod := of.sim.Pod(i)
					if of.uid != "" {
						pod.UID = types.UID(fmt.Sprint(of.uid, i))
					}
					c.pods = append(c.pods, pod)
				}
				c.writer.BeginReplace(false)
				change := func(touch func(pod *corev1.Pod)) (patches int) {
					for _, pod := range c.pods {
						touch(pod)
						c.put(pod)
					}
					c.writer.Flush()
					return c.see()
				}
				if n := change(func(*corev1.Pod) {}); n != 0 {
					t.Errorf("after the list there are %d patches", n)
				}
				c.writer.EndReplace(strconv.Itoa(c.version))
				change(func(pod *corev1.Pod) { podsim.Touch(pod, rnd) })
				for range 3 {
					if n := change(func(pod *corev1.Pod) { podsim.Touch(pod, rnd) }); n < len(c.pods)/2 {
						t.Errorf("%d of %d are patches", n, len(c.pods))
					}
				}
				if n := change(func(pod *corev1.Pod) { // a change of the whole body
					pod.Spec = of.sim.Pod(500 + rnd.IntN(500)).Spec
					pod.Annotations = map[string]string{"noise": string(fmt.Appendf(nil, "%x", rnd.Perm(300)))}
				}); n > len(c.pods)/20 {
					t.Errorf("of other objects %d are patches", n)
				}
				time.Sleep(2 * fastLasts)
				for _, pod := range c.pods {
					podsim.Touch(pod, rnd)
					c.put(pod)
					c.writer.Flush()
				}
				if n := c.see(); n != 0 {
					t.Errorf("what changed one by one is %d patches", n)
				}
			})
		})
	}
}

// TestPatchesAreBounded checks that no patch exceeds its bound, and that an object whose patch
// would exceed the bound is packed again.
func TestPatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Encoding: wire.Protobuf})
		defer s.Close()
		w, sim, version := s.Writer(Scope{}), podsim.New(50, 1), 1000
		again := 0
		for round := range 100 {
			for i := range sim.Len() {
				pod := sim.Pod(i)
				version++
				pod.ResourceVersion = strconv.Itoa(version)
				for j := range round {
					pod.Annotations[fmt.Sprint("note-", j)] = strconv.Itoa(j * 7919)
				}
				putPod(t, w, pod)
			}
			w.Flush()
			for o := range s.Snapshot().All() {
				packed, patch := o.parts()
				if len(patch) > max(patchBytes, len(packed)/2) {
					t.Fatalf("%s: a patch of %d bytes for %d", o.Key(), len(patch), len(packed))
				}
				if round > 0 && len(patch) == 0 {
					again++
				}
			}
		}
		if most := 100 * sim.Len(); again == 0 || again > most/4 {
			t.Errorf("of %d versions %d were packed again", most, again)
		}
	})
}
