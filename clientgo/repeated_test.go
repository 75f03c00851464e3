package clientgo

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestRepeatedEvent checks that an event with an older version than the stored version changes
// nothing, because a server may repeat events. If the object has no uid, as with fake clientsets,
// the informer must instead store the version of the last event.
func TestRepeatedEvent(t *testing.T) {
	events := watch.NewFake()
	inf := NewSharedIndexInformer(podSource("", events), &corev1.Pod{}, 0, nil)
	var calls atomic.Value
	calls.Store("")
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		was, is := before.(*corev1.Pod), now.(*corev1.Pod)
		calls.Store(fmt.Sprintf("%s %s %s-%s", calls.Load(), is.Name, was.ResourceVersion, is.ResourceVersion))
	}, DeleteFunc: func(object any) { calls.Store(fmt.Sprintf("%s %s gone", calls.Load(), object.(*corev1.Pod).Name)) }})
	check.NoError(t, err)
	run(t, inf)
	synced(t, inf)
	version := func(name string, uid types.UID, rv string) *corev1.Pod {
		p := pod(name, rv)
		p.UID, p.ResourceVersion = uid, rv
		return p
	}
	events.Add(version("known", "1", "5"))
	events.Modify(version("known", "1", "7"))
	events.Add(version("known", "1", "5"))
	events.Add(version("again", "2", "6"))
	events.Add(version("again", "1", "4"))    // the earlier object of that name
	events.Modify(version("again", "2", "6")) // repeated after a list that broke off
	events.Delete(version("again", "1", "5"))
	events.Modify(version("again", "1", "4"))
	events.Add(version("fake", "", "7"))
	events.Modify(version("fake", "", "5"))
	events.Modify(version("fake", "", "5"))
	events.Add(version("last", "1", "8"))
	eventually(t, func() bool {
		_, ok, _ := inf.GetStore().GetByKey("d/last")
		return ok
	})
	for key, want := range map[string]string{"d/known": "7", "d/again": "6", "d/fake": "5"} {
		o, ok, err := inf.GetStore().GetByKey(key)
		if err != nil || !ok || o.(*corev1.Pod).ResourceVersion != want {
			t.Errorf("%s: %v %v, want version %s", key, o, err, want)
		}
	}
	want := " known 5-7 fake 7-5 fake 5-5"
	eventually(t, func() bool { return calls.Load() == want })
}

// TestChangeOfSameVersion sends a MODIFIED event that changes an object but not the object's
// resourceVersion. Handlers must receive an update, even if the object cannot be encoded or
// compared.
func TestChangeOfSameVersion(t *testing.T) {
	packed := func(name, rv, v string) runtime.Object {
		p := pod(name, v)
		p.ResourceVersion = rv
		return p
	}
	precise := func(name, rv, v string) runtime.Object {
		p := packed(name, rv, v).(*corev1.Pod)
		p.CreationTimestamp.Time = time.Unix(1, 5)
		return p
	}
	timed := func(name, rv, v string) runtime.Object {
		return &gadget[timedSpec]{ObjectMeta: packed(name, rv, v).(*corev1.Pod).ObjectMeta, Spec: timedSpec{A: v, At: time.Unix(7, 8)}}
	}
	for maker, make := range bothConstructors {
		for kind, object := range map[string]func(name, rv, v string) runtime.Object{"packed": packed, "precise": precise, "timed": timed} {
			for transform, f := range identityOrNone {
				t.Run(maker+"/"+kind+"/"+transform, func(t *testing.T) {
					events := watch.NewFake()
					inf := make(podSource("", events), object("", "", ""), 0, cache.Indexers{})
					check.NoError(t, inf.SetTransform(f))
					calls := observe(t, inf)
					run(t, inf)
					events.Add(object("a", "5", "1"))
					events.Modify(object("a", "5", "2"))
					events.Modify(object("a", "6", "3"))
					calls.wait(t, "update d/a@5 v=2 -> d/a@6 v=3")
					if got := calls.all(); len(got) != 3 || got[1] != "update d/a@5 v=1 -> d/a@5 v=2" {
						t.Errorf("told %q", got)
					}
				})
			}
		}
	}
}

// TestResyncOnRelist checks that ResyncOnRelist makes handlers receive updates for unchanged
// objects after a relist, as with client-go.
func TestResyncOnRelist(t *testing.T) {
	synctest.Test(t, testResyncOnRelist)
}

func testResyncOnRelist(t *testing.T) {
	for _, on := range []bool{false, true} {
		source := newFakeSource(t)
		source.Add(pod("a", "1"))
		source.Add(pod("b", "1"))
		inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, time.Hour, nil, Options{ResyncOnRelist: on})
		calls := newRecorder()
		reg, err := inf.AddEventHandlerWithResyncPeriod(calls, 0)
		check.NoError(t, err)
		stop := run(t, inf)
		synced(t, reg)
		source.watches.wait(t)
		source.DeleteDropWatch(pod("b", "1"))
		source.ResetWatch()
		calls.wait(t, "delete tombstone d/b d/b@2 v=1")
		if on {
			calls.wait(t, "update d/a@1 v=1 -> d/a@1 v=1")
		}
		source.watches.wait(t)
		source.Add(pod("c", "1"))
		calls.wait(t, "add d/c@4 v=1")
		stop()
		want := map[bool]int{false: 4, true: 5}[on]
		if got := calls.all(); len(got) != want {
			t.Errorf("on %v: told %q", on, got)
		}
	}
}
