package controllerruntime_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// sameLabels reports whether two objects share the map of their labels. For unstructured objects it
// compares the maps of the whole objects.
func sameLabels(a, b client.Object) bool {
	if a, ok := a.(*unstructured.Unstructured); ok {
		return reflect.ValueOf(a.Object).Pointer() == reflect.ValueOf(b.(*unstructured.Unstructured).Object).Pointer()
	}
	return reflect.ValueOf(a.GetLabels()).Pointer() == reflect.ValueOf(b.GetLabels()).Pointer()
}

// TestHandlers checks that handlers of typed, unstructured and metadata objects receive every event
// in order, and that unstructured and metadata objects state their kind.
func TestHandlers(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{}))
		var all []*recorder
		for _, o := range []client.Object{&corev1.Pod{}, untyped(podKind), metadataOf(podKind)} {
			all = append(all, s.follow(s.informer(c, o)))
		}
		s.create(pod("a", "2"))
		check.NoError(t, s.client.Patch(s.ctx, pod("a", "1"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`))))
		check.NoError(t, s.client.Delete(s.ctx, pod("a", "2")))
		for i, h := range all {
			h.waitFor("add initial=true a/1")
			h.waitFor("add initial=false a/2")
			updated := h.waitFor("update a/1")
			if updated.GetLabels()["x"] != "y" {
				t.Errorf("told an old object: %v", updated)
			}
			deleted := h.waitFor("delete a/2")
			for _, o := range []client.Object{updated, deleted} {
				if kind := o.GetObjectKind().GroupVersionKind(); i > 0 && kind != podKind {
					t.Errorf("%T says it is a %v", o, kind)
				}
			}
		}
	})
}

// TestRemoveInformer checks that a removed informer stops, and that a later read starts a new one.
func TestRemoveInformer(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		c := s.start(s.cache(cache.Options{}))
		for _, o := range []client.Object{&corev1.Pod{}, untyped(podKind), metadataOf(podKind)} {
			inf := s.informer(c, o)
			calls := s.follow(inf)
			calls.waitFor("add initial=true a/1")
			check.NoError(t, c.RemoveInformer(s.ctx, o))
			s.poll(func() bool { return inf.IsStopped() })
			if _, err := inf.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err == nil {
				t.Error("a stopped informer took a handler")
			}
			if err := c.RemoveInformer(s.ctx, o); err != nil {
				t.Errorf("removed again: %v", err)
			}
			check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, o.DeepCopyObject().(client.Object)))
			next := s.informer(c, o)
			if next == inf || next.IsStopped() {
				t.Error("the informer that was removed came back")
			}
			s.follow(next).waitFor("add initial=true a/1")
		}
	})
}

// TestRemoveBeforeStart checks that an informer that has never run can be removed and leaks no
// goroutine, which goleak would report.
func TestRemoveBeforeStart(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		c := s.cache(cache.Options{})
		if _, err := c.GetInformer(s.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		check.NoError(t, c.RemoveInformer(s.ctx, &corev1.Pod{}))
		var notStarted *cache.ErrCacheNotStarted
		if err := c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Node{}); !errors.As(err, &notStarted) {
			t.Error(err)
		}
	})
}

// TestMultiNamespaceRemove removes an informer of several namespaces from one cache. This must not
// affect another cache. A later read must start a new informer.
func TestMultiNamespaceRemove(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"), pod("b", "1"))
		o := cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}
		first, second := s.start(s.cache(o)), s.start(s.cache(o))
		inf := s.informer(first, &corev1.Pod{})
		check.NoError(t, first.RemoveInformer(s.ctx, &corev1.Pod{}))
		s.poll(inf.IsStopped)
		for _, c := range []cache.Cache{first, second} {
			if got := s.listed(c); len(got) != 2 {
				t.Errorf("%v", got)
			}
		}
	})
}

// TestWatchErrorHandler checks that the watch error handler receives the server's error, and that
// the informer recovers.
func TestWatchErrorHandler(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(pod("a", "1"))
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("because"))
		remove := s.faults.Add(apiserver.Rule{Match: func(r *http.Request) bool {
			return apiserver.Match("list", "pods")(r) || apiserver.Match("watch", "pods")(r)
		}, Err: forbidden})
		errs := make(chan error, 100)
		c := s.start(s.cache(cache.Options{DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, err error) {
			if r == nil {
				t.Error("no reflector")
			}
			select {
			case errs <- err:
			default:
			}
		}}))
		if _, err := c.GetInformer(s.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-errs:
			if !apierrors.IsForbidden(err) {
				t.Errorf("told %v", err)
			}
		case <-s.ctx.Done():
			t.Fatal("not told")
		}
		remove()
		check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, &corev1.Pod{}))
	})
}

// TestExampleIsNotKept checks that an informer is not affected if the program changes the object
// with which it first requested the informer.
func TestExampleIsNotKept(t *testing.T) {
	each(t, func(t *testing.T, s *setup) {
		s.create(newWidget("a", "1", "red"), newWidget("a", "2", "red"))
		c := s.start(s.cache(cache.Options{}))
		for _, o := range []client.Object{untyped(widgetKind), metadataOf(widgetKind), &widget{}} {
			check.NoError(t, c.Get(s.ctx, client.ObjectKey{Namespace: "a", Name: "1"}, o))
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v9", Kind: "Other"})
			o.SetName("other")
		}
		calls := s.follow(s.informer(c, metadataOf(widgetKind)))
		s.create(newWidget("a", "3", "red"))
		added := calls.waitFor("add initial=false a/3")
		check.Equal(t, added.GetObjectKind().GroupVersionKind(), widgetKind, "a later object says it is a")
	})
}

func TestNewCacheErrors(t *testing.T) {
	build := controllerruntime.NewCache()
	if _, err := build(nil, cache.Options{}); err == nil {
		t.Error("no config is no error")
	}
	if _, err := build(&rest.Config{Host: "http://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nothing"}}, cache.Options{}); err == nil {
		t.Error("a config that makes no client is no error")
	}
}

func (s *setup) poll(cond func() bool) {
	s.t.Helper()
	err := wait.PollUntilContextCancel(s.ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return cond(), nil })
	if err != nil {
		s.t.Fatal("the condition never held: ", err)
	}
}
