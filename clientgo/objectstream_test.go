package clientgo

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestStoredForms checks in which form the informer stores an object that List returned: as encoded
// bytes if the encoding loses nothing, otherwise as the Go value.
func TestStoredForms(t *testing.T) {
	typed := pod("kind", "1")
	typed.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	precise := pod("precise", "1")
	precise.CreationTimestamp = metav1.Now()
	precise.CreationTimestamp.Time = precise.CreationTimestamp.Truncate(1e9).Add(5)
	tests := map[string]struct {
		object runtime.Object
		packed bool
	}{
		"pod":                    {pod("a", "1"), true},
		"pod that says its kind": {typed, true},
		"nanoseconds":            {precise, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := test.object.(metav1.Object)
			m.SetResourceVersion("5")
			inf := NewSharedIndexInformer(listsOnce(listOf("5", test.object)), &corev1.Pod{}, 0, nil).(*informer)
			runSynced(t, inf)
			o, ok := inf.store.Get("d/" + m.GetName())
			if !ok {
				t.Fatal("not held")
			}
			check.Equal(t, o.Size() > 0, test.packed, "packed")
			got, err := o.Decoded()
			check.NoError(t, err)
			if p := got.(*corev1.Pod); p.Kind != test.object.(*corev1.Pod).Kind || !p.CreationTimestamp.Equal(&test.object.(*corev1.Pod).CreationTimestamp) {
				t.Errorf("got %v", p)
			}
			if !test.packed && got != any(test.object) {
				t.Error("not the object itself")
			}
		})
	}
}

// TestFakeDynamic checks that an informer stores the unstructured objects of a fake dynamic client.
func TestFakeDynamic(t *testing.T) {
	widget := func(name string, teeth int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "shop.example/v1", "kind": "Widget",
			"metadata": map[string]any{"namespace": "d", "name": name},
			"spec":     map[string]any{"teeth": teeth, "weight": 1.5},
		}}
	}
	gvr := schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "widgets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{gvr: "WidgetList"}, widget("a", 12))
	resource, opened := client.Resource(gvr).Namespace("d"), newWatches()
	lw := listWatchOf(resource)
	lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		w, err := resource.Watch(ctx, o)
		opened <- struct{}{}
		return w, err
	}
	inf := NewSharedIndexInformer(lw, &unstructured.Unstructured{}, 0, nil)
	calls := observe(t, inf)
	runSynced(t, inf)
	opened.wait(t)
	if _, err := resource.Update(context.Background(), widget("a", 13), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	calls.waitCount(t, 2)
	got, _, err := inf.GetStore().GetByKey("d/a")
	check.NoError(t, err)
	u := got.(*unstructured.Unstructured)
	if teeth, _, _ := unstructured.NestedInt64(u.Object, "spec", "teeth"); teeth != 13 || u.GetKind() != "Widget" {
		t.Errorf("got %v", u)
	}
}

// TestNoExample checks that an informer without an example stores objects of any type.
func TestNoExample(t *testing.T) {
	inf := NewSharedIndexInformer(listsOnce(listOf("", pod("a", "1"), configMap("d", "m", nil))), nil, 0, nil)
	runSynced(t, inf)
	check.Equal(t, strings.Join(inf.GetStore().ListKeys(), " "), "d/a d/m", "holds")
}

// TestObjectListHeals checks that the informer updates a stored object if a list contains the same
// version with other content.
func TestObjectListHeals(t *testing.T) {
	content, watches := "1", make(chan *watch.FakeWatcher, 2)
	lw := plainListerWatcher{
		list: func(metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: []corev1.Pod{*pod("a", content)}}
			list.Items[0].ResourceVersion = "9"
			content = "2"
			return list, nil
		},
		watch: func(metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFake()
			watches <- w
			return w, nil
		},
	}
	inf := NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
	handler := observe(t, inf)
	run(t, inf)
	handler.wait(t, "add d/a@9 v=1 initial")
	gone := apierrors.NewResourceExpired("gone").ErrStatus
	(<-watches).Error(&gone)
	handler.wait(t, "update d/a@9 v=1 -> d/a@9 v=2")
}

type openWatcher chan watch.Event

func (w openWatcher) Stop()                          {}
func (w openWatcher) ResultChan() <-chan watch.Event { return w }

// TestSharedChannel uses a ListerWatcher whose watches all return the same channel, which is never
// closed. The informer must lose no event and leak no goroutine.
func TestSharedChannel(t *testing.T) {
	for watcher, watchOf := range map[string]func(chan watch.Event) watch.Interface{
		"ProxyWatcher":  func(events chan watch.Event) watch.Interface { return watch.NewProxyWatcher(events) },
		"does not stop": func(events chan watch.Event) watch.Interface { return openWatcher(events) },
	} {
		for name, make := range bothConstructors {
			t.Run(watcher+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { sharedChannel(t, make, watchOf) })
			})
		}
	}
}

func sharedChannel(t *testing.T, construct constructor, watchOf func(chan watch.Event) watch.Interface) {
	const pods = 20
	events, opened := make(chan watch.Event, 1+pods), newWatches()
	calls := newRecorder()
	lw := podSource("1", nil)
	lw.watch = func(metav1.ListOptions) (watch.Interface, error) {
		opened <- struct{}{}
		return watchOf(events), nil
	}
	inf := construct(lw, &corev1.Pod{}, 0, nil)
	register(t, inf, calls)
	stop := run(t, inf)
	opened.wait(t)
	gone := apierrors.NewResourceExpired("too old").ErrStatus
	events <- watch.Event{Type: watch.Error, Object: &gone}
	for i := range pods {
		events <- watch.Event{Type: watch.Added, Object: pod(fmt.Sprint("p", i), "1")}
	}
	calls.waitCount(t, pods)
	stop()
	// A drain ends within this time; synctest reports goroutines that are left.
	time.Sleep(source.CallGrace)
	synctest.Wait()
}

// TestIssue111370NoPinnedArray checks that one stored object does not keep the array of its list in
// memory (kubernetes 111370).
func TestIssue111370NoPinnedArray(t *testing.T) {
	var array weak.Pointer[corev1.Pod]
	lw := plainListerWatcher{
		list: func(metav1.ListOptions) (runtime.Object, error) {
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
		goruntime.GC()
	}
	goruntime.KeepAlive(kept)
}
