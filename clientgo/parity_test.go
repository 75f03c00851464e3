package clientgo

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// parityStories contains sequences of changes (stories), by name. tell makes the changes in the
// informer's source. want are the events that the handler must receive, as sorted lines.
var parityStories = map[string]struct {
	tell func(t *testing.T, s *recordedInformer)
	want string
}{
	"what is there is added as initial": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.source.Add(pod("b", "1"))
			s.start(t)
		},
		"add d/a@1 v=1 initial\nadd d/b@2 v=1 initial",
	},
	"changes come in order": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.start(t)
			s.source.Modify(pod("a", "2"))
			s.source.Add(pod("b", "1"))
			s.source.Modify(pod("a", "3"))
			s.source.Delete(pod("a", "3"))
			s.calls.wait(t, "delete d/a@5 v=3")
		},
		"add d/a@1 v=1 initial\nadd d/b@3 v=1\ndelete d/a@5 v=3\nupdate d/a@1 v=1 -> d/a@2 v=2\nupdate d/a@2 v=2 -> d/a@4 v=3",
	},
	"a handler that is added late receives the current state": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.start(t)
			late := newRecorder()
			reg := register(t, s.informer, late)
			synced(t, reg)
			check.Equal(t, late.sorted(), "add d/a@1 v=1 initial", "late handler was told")
			if !reg.HasSynced() {
				t.Error("HasSynced is false though HasSyncedChecker is done")
			}
		},
		"add d/a@1 v=1 initial",
	},
	"a deletion that was missed is a tombstone": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.source.Add(pod("b", "1"))
			s.start(t)
			s.source.DeleteDropWatch(pod("a", "1"))
			s.source.ResetWatch()
			s.calls.wait(t, "delete tombstone d/a d/a@1 v=1")
			s.source.watches.wait(t)
			s.source.Delete(pod("b", "1"))
			s.calls.wait(t, "delete d/b@4 v=1")
		},
		"add d/a@1 v=1 initial\nadd d/b@2 v=1 initial\ndelete d/b@4 v=1\ndelete tombstone d/a d/a@1 v=1",
	},
	"the deletion of an unknown object is delivered": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.start(t)
			s.source.Delete(pod("b", "1"))
			s.source.Delete(pod("a", "1"))
			s.calls.wait(t, "delete d/a@3 v=1")
			s.source.Delete(pod("a", "1"))
			s.calls.wait(t, "delete d/a@4 v=1")
			check.Equal(t, shown(s.informer.GetStore().List()), "", "stored")
		},
		"add d/a@1 v=1 initial\ndelete d/a@3 v=1\ndelete d/a@4 v=1\ndelete d/b@2 v=1",
	},
	"a change that was missed is an update": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.start(t)
			s.source.ModifyDropWatch(pod("a", "2"))
			s.source.ResetWatch()
			s.calls.wait(t, "update d/a@1 v=1 -> d/a@2 v=2")
		},
		"add d/a@1 v=1 initial\nupdate d/a@1 v=1 -> d/a@2 v=2",
	},
	"a filter turns updates into additions and deletions": {
		func(t *testing.T, s *recordedInformer) {
			filtered := newRecorder()
			if _, err := s.informer.AddEventHandler(cache.FilteringResourceEventHandler{
				FilterFunc: func(obj any) bool { return obj.(*corev1.Pod).Labels["v"] == "2" },
				Handler:    filtered,
			}); err != nil {
				t.Fatal(err)
			}
			s.source.Add(pod("a", "1"))
			s.start(t)
			s.source.Modify(pod("a", "2"))
			s.source.Modify(pod("a", "3"))
			filtered.wait(t, "delete d/a@2 v=2")
			check.Equal(t, filtered.sorted(), "add d/a@2 v=2\ndelete d/a@2 v=2", "filtered handler was told")
			s.calls.wait(t, "update d/a@2 v=2 -> d/a@3 v=3")
		},
		"add d/a@1 v=1 initial\nupdate d/a@1 v=1 -> d/a@2 v=2\nupdate d/a@2 v=2 -> d/a@3 v=3",
	},
	"a removed handler receives no more events": {
		func(t *testing.T, s *recordedInformer) {
			other := newRecorder()
			reg := register(t, s.informer, other)
			s.source.Add(pod("a", "1"))
			s.start(t)
			synced(t, reg)
			check.NoError(t, shutDownHandler(s.informer, reg))
			if err := s.informer.RemoveEventHandler(reg); err != nil {
				t.Errorf("removed again: %v", err)
			}
			s.source.Modify(pod("a", "2"))
			s.calls.wait(t, "update d/a@1 v=1 -> d/a@2 v=2")
			check.Equal(t, other.sorted(), "add d/a@1 v=1 initial", "removed handler was told")
		},
		"add d/a@1 v=1 initial\nupdate d/a@1 v=1 -> d/a@2 v=2",
	},
	"a handler removed before the start ends at once": {
		func(t *testing.T, s *recordedInformer) {
			other := newRecorder()
			reg := register(t, s.informer, other)
			check.NoError(t, shutDownHandler(s.informer, reg))
			s.source.Add(pod("a", "1"))
			s.start(t)
			check.Equal(t, other.sorted(), "", "removed handler was told")
		},
		"add d/a@1 v=1 initial",
	},
	"an object of another uid under the same name is an update": {
		func(t *testing.T, s *recordedInformer) {
			s.source.Add(pod("a", "1"))
			s.start(t)
			old, fresh := pod("a", "1"), pod("a", "2")
			fresh.UID = "uid-2"
			s.source.DeleteDropWatch(old)
			s.source.AddDropWatch(fresh)
			s.source.ResetWatch()
			s.calls.wait(t, "update d/a@1 v=1 -> d/a@3 v=2")
		},
		"add d/a@1 v=1 initial\nupdate d/a@1 v=1 -> d/a@3 v=2",
	},
}

// TestParity makes the changes of each story with client-go's informer and with Weir's, and checks
// that the handler receives the same events from both. The source is client-go's
// FakeControllerSource.
func TestParity(t *testing.T) {
	for name, story := range parityStories {
		for maker, make := range bothConstructors {
			t.Run(name+"/"+maker, func(t *testing.T) {
				// Informers wait for a second after a watch has ended; virtual time avoids the wait.
				synctest.Test(t, func(t *testing.T) {
					s := newRecordedInformer(t, make)
					story.tell(t, s)
					s.stop()
					check.Equal(t, withoutUnchanged(s.calls.sorted()), story.want, "handler was told")
				})
			})
		}
	}
}

// withoutUnchanged removes the updates from a version to itself. client-go sends them after a
// relist, and Weir does not; see docs/reference/differences.md.
func withoutUnchanged(lines string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(lines, "\n"), func(line string) bool {
		from, to, ok := strings.Cut(strings.TrimPrefix(line, "update "), " -> ")
		return ok && from == to
	}), "\n")
}
