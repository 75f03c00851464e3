package clientgo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestRepeatedEvent: an object that a ListerWatcher returns in an older version than is held changes
// nothing, as in an event that a server sends again before the watch breaks off. Where objects have
// no uid, as with fake clientsets, the order of events counts.
func TestRepeatedEvent(t *testing.T) {
	events := watch.NewFake()
	lw := plainListerWatcher{
		list:  func(metav1.ListOptions) (runtime.Object, error) { return &corev1.PodList{}, nil },
		watch: func(metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}
	inf := NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
	stop := run(t, inf)
	defer stop()
	synced(t, inf.HasSyncedChecker())
	version := func(name string, uid types.UID, rv string) *corev1.Pod {
		p := pod(name, rv)
		p.UID, p.ResourceVersion = uid, rv
		return p
	}
	events.Add(version("known", "1", "5"))
	events.Modify(version("known", "1", "7"))
	events.Add(version("known", "1", "5"))
	events.Add(version("fake", "", "7"))
	events.Modify(version("fake", "", "5"))
	events.Add(version("last", "1", "8"))
	eventually(t, func() bool {
		_, ok, _ := inf.GetStore().GetByKey("d/last")
		return ok
	})
	for key, want := range map[string]string{"d/known": "7", "d/fake": "5"} {
		o, ok, err := inf.GetStore().GetByKey(key)
		if err != nil || !ok || o.(*corev1.Pod).ResourceVersion != want {
			t.Errorf("%s: %v %v, want version %s", key, o, err, want)
		}
	}
}
