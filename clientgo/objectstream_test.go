package clientgo

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestHeldObjects checks that returned objects are stored as bytes if the encoding loses nothing,
// and as values otherwise.
func TestHeldObjects(t *testing.T) {
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
		"pod that says its kind": {typed, true}, // as JSON
		"nanoseconds":            {precise, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := test.object.(metav1.Object)
			m.SetResourceVersion("5")
			lw := plainListerWatcher{
				list: func(metav1.ListOptions) (runtime.Object, error) {
					return &corev1.List{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []runtime.RawExtension{{Object: test.object}}}, nil
				},
				watch: func(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
			}
			inf := NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil).(*informer)
			stop := run(t, inf)
			synced(t, inf.HasSyncedChecker())
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
			stop()
		})
	}
}

// TestFakeDynamic checks unstructured objects of a fake dynamic client.
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
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := resource.Watch(ctx, o)
			opened <- struct{}{}
			return w, err
		},
	}
	inf := NewSharedIndexInformer(lw, &unstructured.Unstructured{}, 0, nil)
	calls := newRecorder()
	if _, err := inf.AddEventHandler(calls); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
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
	stop()
}

// TestObjectStreamErrors checks that an informer reports a result that is not a list, and a failed
// list. It survives, without a call of the watch error handler, an event with another type and a
// watch that ends with a status.
func TestObjectStreamErrors(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewResourceExpired("too old").ErrStatus
	lists, watches := 0, make(chan *watch.FakeWatcher, 10)
	errs := make(chan error, 100)
	inf := NewSharedIndexInformer(plainListerWatcher{
		list: func(metav1.ListOptions) (runtime.Object, error) {
			lists++
			switch lists {
			case 1:
				return pod("a", "1"), nil // not a list
			case 2:
				return nil, errors.New("try again")
			}
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(lists)}}, nil
		},
		watch: func(metav1.ListOptions) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(10, false)
			watches <- w
			return w, nil
		},
	}, &corev1.Pod{}, 0, nil)
	check.NoError(t, inf.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { errs <- err }))
	handler := newRecorder()
	if _, err := inf.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	for _, want := range []string{"no list", "try again"} {
		if err := <-errs; !strings.Contains(err.Error(), want) {
			t.Errorf("told %v, want %s", err, want)
		}
	}
	synced(t, inf.HasSyncedChecker())
	w := <-watches
	w.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "wrong"}})
	good := pod("a", "1")
	good.ResourceVersion = "9"
	w.Add(good)
	handler.wait(t, "add d/a@9 v=1")
	w.Error(&gone)
	handler.wait(t, "delete tombstone d/a d/a@9 v=1")
	if keys := inf.GetStore().ListKeys(); len(keys) != 0 {
		t.Errorf("holds %v", keys)
	}
	stop()
	if len(errs) > 0 {
		t.Errorf("also received %v", <-errs)
	}
}

// TestOddEvents checks that a watch continues after meaningless events.
func TestOddEvents(t *testing.T) {
	for name, make := range bothConstructors {
		t.Run(name, func(t *testing.T) {
			w := watch.NewFake()
			calls := newRecorder()
			inf := make(plainListerWatcher{
				list: func(metav1.ListOptions) (runtime.Object, error) {
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				},
				watch: func(metav1.ListOptions) (watch.Interface, error) { return w, nil },
			}, &corev1.Pod{}, 0, nil)
			if _, err := inf.AddEventHandler(calls); err != nil {
				t.Fatal(err)
			}
			stop := run(t, inf)
			synced(t, inf.HasSyncedChecker())
			w.Action("STRANGE", pod("a", "1"))
			w.Action(watch.Added, &metav1.Status{})
			w.Action(watch.Modified, nil)
			w.Add(pod("b", "1"))
			calls.wait(t, "add d/b@ v=1")
			if got := calls.all(); len(got) != 1 {
				t.Errorf("told %q", got)
			}
			stop()
		})
	}
}

// TestNoExample checks that an informer without an example stores objects of any type.
func TestNoExample(t *testing.T) {
	lw := plainListerWatcher{
		list: func(metav1.ListOptions) (runtime.Object, error) {
			return &corev1.List{Items: []runtime.RawExtension{{Object: pod("a", "1")}, {Object: configMap("d", "m", nil)}}}, nil
		},
		watch: func(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
	inf := NewSharedIndexInformer(lw, nil, 0, nil)
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	check.Equal(t, strings.Join(inf.GetStore().ListKeys(), " "), "d/a d/m", "holds")
	stop()
}

// TestObjectListHeals checks that a list that has other content for the stored version replaces it.
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
	handler := newRecorder()
	if _, err := inf.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	handler.wait(t, "add d/a@9 v=1 initial")
	gone := apierrors.NewResourceExpired("gone").ErrStatus
	(<-watches).Error(&gone)
	handler.wait(t, "update d/a@9 v=1 -> d/a@9 v=2")
	stop()
}
