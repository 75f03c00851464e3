package clientgo

import (
	"context"
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
	cachetest "k8s.io/client-go/tools/cache/testing"

	"github.com/weirproject/weir/apiserver"
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
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
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
	stop()
}

// TestIssue1326BoundedPending checks that a handler that hangs keeps a bounded number of old
// versions in memory and delays no other handler (client-go 1326, controller-runtime 3496). When it
// continues it receives the newest state of each object, once.
func TestIssue1326BoundedPending(t *testing.T) {
	source := cachetest.NewFakeControllerSource()
	t.Cleanup(source.Shutdown)
	source.Add(pod("a", "0"))
	source.Add(pod("b", "0"))
	inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, 0, nil, Options{LogBytes: 4 << 10})
	held, release := make(chan struct{}), make(chan struct{})
	slow, quick := newRecorder(), newRecorder()
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			slow.OnAdd(obj, false)
			if obj.(*corev1.Pod).Name == "b" {
				close(held)
				<-release
			}
		},
		UpdateFunc: slow.OnUpdate,
	})
	check.NoError(t, err)
	if _, err := inf.AddEventHandler(quick); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	<-held
	const changes = 500
	for v := 1; v <= changes; v++ {
		source.Modify(pod("a", strconv.Itoa(v)))
	}
	last := "d/a@" + strconv.Itoa(changes+2) + " v=" + strconv.Itoa(changes)
	endsWithLast := func(lines []string) bool { return len(lines) > 0 && strings.HasSuffix(lines[len(lines)-1], last) }
	quick.until(t, "the last change", endsWithLast)
	check.Equal(t, reg.(*registration).delivery.Stats().Pending, 1, "keys are kept")
	close(release)
	slow.until(t, "the last change", endsWithLast)
	if lines := slow.all(); len(lines) > changes/2 || !strings.HasPrefix(lines[2], "update d/a@1 v=0 -> ") {
		t.Errorf("told %d times, first %s", len(lines), lines[2])
	}
	stop()
}

// TestBehindByUID checks that a handler that hangs receives each object that existed meanwhile, as
// in client-go.
func TestBehindByUID(t *testing.T) {
	byObject := func(lw cache.ListerWatcher, example kruntime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		return NewSharedIndexInformerWithOptions(lw, example, resync, indexers, Options{LogBytes: 1})
	}
	for maker, construct := range map[string]constructor{"client-go": cache.NewSharedIndexInformer, "weir": byObject} {
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
			s.stop()
		})
	}
}

// TestIssue119646QuietRelist checks that a relist without changes calls no handler (kubernetes
// 119646: 100,000 updates after an apiserver's restart), and does not change the memory (client-go
// 1377).
func TestIssue119646QuietRelist(t *testing.T) {
	faults := &apiserver.Faults{}
	server := serve(t, apiserver.Options{Pods: 100, Faults: faults})
	client := fill(t, server.Config())
	cut := int64(0)
	inf := NewSharedIndexInformer(podsOf(capturing(server.Config())), &corev1.Pod{}, 0, nil).(*informer)
	calls := newRecorder()
	reg, err := inf.AddEventHandler(calls)
	check.NoError(t, err)
	remove := faults.Add(apiserver.Rule{Match: apiserver.Match("watch", "pods"), Cut: &cut, CutCleanly: true})
	stop := run(t, inf)
	synced(t, reg.HasSyncedChecker())
	raw := inf.store.Memory().Packed
	// While no watch can open, the server forgets the deletion of one pod, so that a relist has to
	// find it.
	gone := inf.GetStore().List()[0].(*corev1.Pod)
	check.NoError(t, client.CoreV1().Pods(gone.Namespace).Delete(context.Background(), gone.Name, *metav1.NewDeleteOptions(0)))
	server.Compact()
	remove()
	calls.until(t, "a deletion", func(lines []string) bool {
		return strings.HasPrefix(lines[len(lines)-1], "delete tombstone "+gone.Namespace+"/"+gone.Name)
	})
	for _, line := range calls.all()[100:] {
		if !strings.Contains(line, "/"+gone.Name+"@") {
			t.Errorf("told after the relist: %s", line)
		}
	}
	if now := inf.store.Memory().Packed; now > raw {
		t.Errorf("%d bytes are held, %d before the relist", now, raw)
	}
	stop()
}
