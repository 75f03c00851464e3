package clientgo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestReflectorCaptured compares the stores of client-go's Reflector and of Weir's on a server. It
// checks that Weir's Reflector captures the responses, except those of a ListerWatcher that was
// passed to WithoutCapture.
func TestReflectorCaptured(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 300})
	newStore := func() cache.Store { return cache.NewStore(cache.MetaNamespaceKeyFunc) }
	theirs := newStore()
	runReflector(t, cache.NewReflector(podsOf(server.Config()), &corev1.Pod{}, theirs, 0))
	eventually(t, func() bool { return len(theirs.ListKeys()) == 300 })
	for name, test := range map[string]struct {
		wrap     func(cache.ListerWatcher) cache.ListerWatcher
		pageSize int64
		captured bool
	}{
		"captured":     {func(lw cache.ListerWatcher) cache.ListerWatcher { return lw }, 0, true},
		"in pages":     {func(lw cache.ListerWatcher) cache.ListerWatcher { return lw }, 100, true},
		"not captured": {WithoutCapture, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			ours := newStore()
			r := NewReflector(test.wrap(podsOf(capturing(server.Config()))), &corev1.Pod{}, ours, 0)
			r.WatchListPageSize = test.pageSize
			stop := runReflector(t, r)
			eventually(t, func() bool { return len(ours.ListKeys()) == 300 })
			for _, key := range theirs.ListKeys() {
				want, _, _ := theirs.GetByKey(key)
				got, _, _ := ours.GetByKey(key)
				if !apiequality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s differs: %s", key, cmp.Diff(want, got))
				}
			}
			stop()
			check.Equal(t, r.stats.BodyBytes.Load() > 0, test.captured, "captured")
			if test.pageSize > 0 {
				check.Equal(t, r.stats.Lists.Load(), 3, "LISTs")
			}
		})
	}
}

// TestWithoutCapture checks that shared informers use the objects that a filtering ListerWatcher
// returns.
func TestWithoutCapture(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 3})
	for name, construct := range map[string]func(cache.ListerWatcher) cache.SharedIndexInformer{
		"constructed": func(lw cache.ListerWatcher) cache.SharedIndexInformer {
			return NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		},
		"adopted": func(lw cache.ListerWatcher) cache.SharedIndexInformer {
			return Adopt(cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)) // client-go's if weir_safe
		},
	} {
		t.Run(name, func(t *testing.T) {
			inf := construct(WithoutCapture(podsOf(capturing(server.Config()))))
			runSynced(t, inf)
			check.Equal(t, len(inf.GetStore().ListKeys()), 3, "objects")
			if ours, ok := inf.(*informer); ok {
				check.Equal(t, ours.stats.BodyBytes.Load(), 0, "captured bytes")
			}
		})
	}
}

// TestListOfSameNames checks that a list of several kinds reaches a store whose keys are uids.
func TestListOfSameNames(t *testing.T) {
	store := cache.NewStore(func(obj any) (string, error) { return string(obj.(metav1.Object).GetUID()), nil })
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1", ResourceVersion: "3"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "2", ResourceVersion: "4"}},
	}}
	runReflector(t, NewReflector(&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list.DeepCopy(), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, nil, store, 0))
	eventually(t, func() bool { return len(store.ListKeys()) == 2 })
}

// streamStore is a StreamingStore that records its calls.
type streamStore struct{ *recordingStore }

func (s streamStore) BeginList()              { s.note("begin") }
func (s streamStore) AddListed(obj any) error { return s.call("listed %s", show(obj)) }
func (s streamStore) EndList(rv string) error { return s.call("end %s", rv) }

// TestStreamingStore checks the calls of a StreamingStore: only the first list is streamed, also
// after errors.
func TestStreamingStore(t *testing.T) {
	silent(t)
	synctest.Test(t, func(t *testing.T) {
		lw := newStory(func(n int) (runtime.Object, error) { return podList(fmt.Sprint(10+n), podAt("5", "a", "1")), nil })
		refused := errors.New("refused")
		store := streamStore{newRecordingStore(map[string]error{"listed d/a@5 v=1": refused, "end 11": refused})}
		stop := runReflector(t, NewReflector(lw, &corev1.Pod{}, store, 0))
		w := <-lw.watches
		w.Error(statusOf(apierrors.NewResourceExpired("too old")))
		<-lw.watches
		stop()
		check.Equal(t, strings.Join(store.all(), "\n"), strings.Join([]string{
			"begin", "listed d/a@5 v=1", "begin", "listed d/a@5 v=1", "end 11", "begin", "listed d/a@5 v=1", "end 12", "replace 13: d/a@5 v=1",
		}, "\n"), "calls")
	})
}

// TestReflectorUnreadableItem checks that a list with an item that cannot be decoded replaces
// nothing: Replace would remove the item's object.
func TestReflectorUnreadableItem(t *testing.T) {
	silent(t)
	synctest.Test(t, func(t *testing.T) {
		lw := newStory(func(n int) (runtime.Object, error) {
			if n == 1 {
				list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "11"}}
				list.Items = []runtime.RawExtension{{Object: podAt("5", "a", "1")}, {Object: nil}}
				return list, nil
			}
			return podList(fmt.Sprint(10+n), podAt("5", "a", "1"), podAt("6", "b", "1")), nil
		})
		store := newRecordingStore(nil)
		stop := runReflector(t, NewReflector(lw, &corev1.Pod{}, store, 0))
		w := <-lw.watches
		w.Error(statusOf(apierrors.NewResourceExpired("too old")))
		<-lw.watches
		synctest.Wait()
		stop()
		for _, line := range store.all() {
			if !strings.Contains(line, "d/b@6") {
				t.Errorf("the store lost an object: %s", line)
			}
		}
		check.Equal(t, len(store.all()), 2, "calls")
	})
}

// TestNamespaceKeyedIndexerAndReflector checks the index by namespace.
func TestNamespaceKeyedIndexerAndReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lw := newStory(func(int) (runtime.Object, error) { return podList("10", podAt("5", "a", "1")), nil })
		indexer, r := NewNamespaceKeyedIndexerAndReflector(lw, &corev1.Pod{}, 0)
		stop := runReflector(t, r)
		<-lw.watches
		objects, err := indexer.ByIndex(cache.NamespaceIndex, "d")
		check.NoError(t, err)
		check.Equal(t, shown(objects), "d/a@5 v=1", "by namespace")
		stop()
	})
}

// TestReflectorBrokenPage checks that Replace receives each object once, although the reflector
// receives the objects of a page again after the page broke off, and that an object that was
// deleted meanwhile is missing.
func TestReflectorBrokenPage(t *testing.T) {
	store := newRecordingStore(nil)
	r := NewReflector(newStory(nil), &corev1.Pod{}, store, 0)
	s := &storeSink{reflector: r, context: t.Context(), onSynced: func() {}}
	s.core = reflector.New(r.listWatch, s, reflector.Config{})
	take := func(event wire.EventType, p *corev1.Pod) {
		m, raw := received(t, p)
		check.NoError(t, s.Take(event, m, raw, nil))
	}
	s.BeginReplace(false)
	take(0, podAt("5", "lost", "1")) // this list fails
	s.AbortReplace()
	s.BeginReplace(false)
	take(0, podAt("5", "a", "1"))
	take(0, podAt("6", "b", "1"))
	take(0, podAt("7", "c", "1"))
	take(0, podAt("8", "a", "2"))
	take(0, podAt("6", "b", "1"))
	take(wire.Deleted, podAt("9", "b", "1"))
	take(wire.Deleted, podAt("9", "never listed", "1"))
	s.EndReplace("10")
	check.NoError(t, s.Err())
	check.Equal(t, strings.Join(store.all(), "\n"), "replace 10: d/a@8 v=2, d/c@7 v=1", "calls")
}
