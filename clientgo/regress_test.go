package clientgo

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestIssue111370NoPinnedArray checks that one object does not keep its list's array in memory
// (kubernetes 111370).
func TestIssue111370NoPinnedArray(t *testing.T) {
	var array weak.Pointer[corev1.Pod]
	lw := plainListerWatcher{
		list: func(metav1.ListOptions) (kruntime.Object, error) {
			list := &corev1.PodList{Items: make([]corev1.Pod, 1000)}
			for i := range list.Items {
				list.Items[i] = *pod(strconv.Itoa(i), "1")
				// Nanoseconds cannot be encoded, so the store keeps the objects themselves.
				list.Items[i].CreationTimestamp.Time = time.Unix(1, 5)
			}
			array = weak.Make(&list.Items[0])
			return list, nil
		},
		watch: func(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
	inf := NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
	runSynced(t, inf)
	kept, ok, err := inf.GetStore().GetByKey("d/7")
	if err != nil || !ok {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waitTimeout); array.Value() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the list's array is kept")
		}
		runtime.GC()
	}
	runtime.KeepAlive(kept)
}

// TestBehindByUID checks that a handler that hangs receives each object that existed meanwhile, as
// in client-go.
func TestBehindByUID(t *testing.T) {
	for maker, construct := range map[string]constructor{"client-go": cache.NewSharedIndexInformer, "weir": withOptions(Options{LogBytes: 1})} {
		t.Run(maker, func(t *testing.T) {
			s := newRecordedInformer(t, construct)
			held, release, slow := make(chan struct{}), make(chan struct{}), newRecorder()
			if _, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) {
					if slow.OnAdd(obj, false); obj.(*corev1.Pod).UID == "uid-1" {
						close(held)
						<-release
					}
				},
				UpdateFunc: slow.OnUpdate, DeleteFunc: slow.OnDelete,
			}); err != nil {
				t.Fatal(err)
			}
			named := func(name, uid string) *corev1.Pod {
				p := pod(name, "1")
				p.UID = types.UID(uid)
				return p
			}
			s.source.Add(named("a", "uid-1"))
			s.start(t)
			<-held
			s.source.Delete(named("a", "uid-1"))
			s.source.Add(named("a", "uid-2"))
			s.source.Add(named("b", "uid-3"))
			s.source.Delete(named("b", "uid-3"))
			s.calls.wait(t, "delete d/b@5 v=1")
			close(release)
			slow.wait(t, "delete d/b@5 v=1")
			want := "add d/a@1 v=1|delete d/a@2 v=1|add d/a@3 v=1|add d/b@4 v=1|delete d/b@5 v=1"
			check.Equal(t, strings.Join(slow.all(), "|"), want, "told")
		})
	}
}
