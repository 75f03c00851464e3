package clientgo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// renaming is a transform that gives each pod another name and namespace. Programs that store the
// objects of several clusters in one cache use such transforms. It returns an error for a pod that
// it has already renamed.
func renaming(obj any) (any, error) {
	p := obj.(*corev1.Pod)
	if strings.HasPrefix(p.Name, "one.") {
		return nil, fmt.Errorf("%s has its name already", p.Name)
	}
	p.Namespace, p.Name = "of-"+p.Namespace, "one."+p.Name
	return p, nil
}

// TestRenamingTransform uses a transform that renames objects. Handlers must receive the same
// events, and the store must contain the same objects, as with client-go.
func TestRenamingTransform(t *testing.T) {
	var got []string
	for maker, make := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			s := newRecordedInformer(t, make)
			check.NoError(t, s.informer.SetTransform(renaming))
			s.source.Add(pod("a", "1"))
			s.source.Add(pod("b", "1"))
			s.start(t)
			s.calls.waitCount(t, 2)
			s.source.Modify(pod("a", "2"))
			s.source.Modify(pod("b", "2"))
			s.source.Delete(pod("a", "3"))
			s.source.Add(pod("c", "1"))
			s.calls.waitCount(t, 6)
			got = append(got, s.calls.sorted()+"\n"+shown(s.informer.GetStore().List()))
		})
	}
	if len(got) == 2 && got[0] != got[1] {
		t.Errorf("differs:\n%s\n\n%s", got[0], got[1])
	}
}

// TestRenamingTransformOfBytes checks which objects the store contains if a transform renames
// captured objects: after a DELETED event, and after lists that contain or lack the stored objects.
func TestRenamingTransformOfBytes(t *testing.T) {
	c := newChangingStore(t, Options{})
	sink := c.inf.sink
	sink.Writer, sink.transform = c.writer, renaming
	take := func(event wire.EventType, name, version string) {
		t.Helper()
		m, raw := received(t, podAt(version, name, "1"))
		check.NoError(t, sink.Take(event, m, raw, nil))
	}
	holds := func(want ...string) {
		t.Helper()
		sink.Flush()
		if got := c.inf.indexer.ListKeys(); !slices.Equal(got, want) {
			t.Errorf("holds %q, want %q", got, want)
		}
	}
	sink.BeginReplace(false)
	take(0, "a", "1")
	take(0, "b", "2")
	sink.EndReplace("2")
	holds("of-d/one.a", "of-d/one.b")
	take(wire.Deleted, "a", "3")
	holds("of-d/one.b")
	sink.BeginReplace(false)
	take(0, "b", "2")
	take(0, "c", "4")
	sink.EndReplace("4")
	holds("of-d/one.b", "of-d/one.c")
	sink.BeginReplace(false)
	sink.EndReplace("5")
	holds()
}

// TestRenamedAndRefused checks that a renamed object keeps its stored version if a relist contains
// a later version for which the transform fails. A DELETED event must delete the object even if the
// transform fails for the final state.
func TestRenamedAndRefused(t *testing.T) {
	t.Run("bytes", func(t *testing.T) { renamedAndRefused(t, false) })
	t.Run("objects", func(t *testing.T) { renamedAndRefused(t, true) })
}

func renamedAndRefused(t *testing.T, returned bool) {
	c := newChangingStore(t, Options{})
	sink := c.inf.sink
	sink.Writer, sink.transform = c.writer, func(obj any) (any, error) {
		if _, err := refusing(obj); err != nil {
			return nil, err
		}
		return renaming(obj)
	}
	take := func(event wire.EventType, name, version, v string) error {
		t.Helper()
		p := podAt(version, name, v)
		m, raw := received(t, p)
		if returned {
			return sink.Take(event, m, nil, p)
		}
		return sink.Take(event, m, raw, nil)
	}
	list := func(end, v string, names ...string) {
		t.Helper()
		sink.BeginReplace(false)
		for i, name := range names {
			if err := take(0, name, end+strconv.Itoa(i), v); (err != nil) != (v == "bad") {
				t.Errorf("%s v=%s: %v", name, v, err)
			}
		}
		sink.EndReplace(end + "9")
	}
	holds := func(names ...string) {
		t.Helper()
		sink.Flush()
		if got := c.inf.indexer.ListKeys(); !slices.Equal(got, names) || len(sink.renames) != len(names) {
			t.Errorf("holds %q and has %v renamed, want %q", got, sink.renames, names)
		}
	}
	list("1", "1", "a", "b", "c")
	holds("of-d/one.a", "of-d/one.b", "of-d/one.c")
	list("2", "bad", "a", "b")
	holds("of-d/one.a", "of-d/one.b")
	changes := c.changes(func() { check.NoError(t, take(wire.Deleted, "a", "30", "bad")) })
	holds("of-d/one.b")
	if got, err := c.inf.indexer.reader.deletedValue(&changes[0]); err != nil || show(got) != "of-d/one.a@30 v=1" {
		t.Errorf("OnDelete gets %s, %v", show(got), err)
	}
	list("4", "1")
	holds()
}

// TestRepeatedDeletion checks the argument of OnDelete if a watch repeats its last events after the
// informer has stored a later version. If resourceVersions are numbers, the argument must be the
// stored version. Otherwise it must be the state in the event, as with client-go. A captured event
// must not delete a later object of the same name.
func TestRepeatedDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		first, deleted, last, uid string
		captured, returned        string // the argument of OnDelete; "" if it is not called
	}{
		"numbers":                   {"1", "2", "3", "uid-1", "", "d/a@3 v=2"},
		"of another object":         {"1", "2", "3", "uid-2", "", ""},
		"opaque":                    {"x", "c", "r", "uid-1", "d/a@c v=1", "d/a@c v=1"},
		"opaque, of another object": {"x", "c", "r", "uid-2", "", "d/a@r v=2"},
	} {
		for captured, want := range map[bool]string{true: test.captured, false: test.returned} {
			t.Run(fmt.Sprintf("%s, captured %v", name, captured), func(t *testing.T) {
				check.Equal(t, repeatDeletion(t, captured, test.first, test.deleted, test.last, test.uid), want, "OnDelete gets")
			})
		}
	}
}

func repeatDeletion(t *testing.T, captured bool, first, deleted, last, uid string) (told string) {
	c := newChangingStore(t, Options{})
	sink := c.inf.sink
	sink.Writer = c.writer
	take := func(event wire.EventType, version, label string) {
		t.Helper()
		p := podAt(version, "a", label)
		if label == "2" {
			p.UID = types.UID(uid)
		}
		m, raw := received(t, p)
		if captured {
			check.NoError(t, sink.Take(event, m, raw, nil))
		} else {
			check.NoError(t, sink.Take(event, m, nil, p))
		}
		sink.Flush()
	}
	take(wire.Added, first, "1")
	take(wire.Deleted, deleted, "1")
	take(wire.Added, last, "2")
	for _, ch := range c.changes(func() { take(wire.Deleted, deleted, "1") }) {
		got, err := c.inf.indexer.reader.deletedValue(&ch)
		check.NoError(t, err)
		told += show(got)
	}
	return told
}

// TestSameVersionDeleted checks that OnDelete receives the state in the DELETED event. The event
// has no resourceVersion, as with fake clientsets, or the resourceVersion of the stored object.
func TestSameVersionDeleted(t *testing.T) {
	for maker, make := range bothConstructors {
		for _, version := range []string{"7", ""} {
			t.Run(maker+"/"+version, func(t *testing.T) {
				watcher := watch.NewFake()
				inf := make(podSource("1", watcher), &corev1.Pod{}, 0, cache.Indexers{})
				calls := observe(t, inf)
				run(t, inf)
				watcher.Add(podAt(version, "a", "1"))
				calls.waitCount(t, 1)
				watcher.Delete(podAt(version, "a", "9"))
				calls.wait(t, "delete d/a@"+version+" v=9")
			})
		}
	}
}
