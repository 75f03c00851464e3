package weir_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
)

// listerWatcher is a ListerWatcher without contexts, as a program has it. The n-th LIST returns the
// n-th of lists, or the last one.
type listerWatcher struct {
	mu      sync.Mutex
	lists   []runtime.Object
	options []metav1.ListOptions
	watches chan *watch.FakeWatcher
}

func newListerWatcher(lists ...runtime.Object) *listerWatcher {
	return &listerWatcher{lists: lists, watches: make(chan *watch.FakeWatcher, 10)}
}

func (l *listerWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options = append(l.options, o)
	list := l.lists[0]
	if len(l.lists) > 1 {
		l.lists = l.lists[1:]
	}
	return list.DeepCopyObject(), nil
}

func (l *listerWatcher) Watch(metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	l.watches <- w
	return w, nil
}

func configMapAt(version, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: "uid", ResourceVersion: version}}
}

func configMapList(version string, maps ...*corev1.ConfigMap) *corev1.ConfigMapList {
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, m := range maps {
		list.Items = append(list.Items, *m)
	}
	return list
}

// values returns the stored objects, and reports records that have no Value.
func (s *table) values() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.held)) {
		r := s.held[key]
		m, ok := r.Value.(*corev1.ConfigMap)
		if !ok || m.ResourceVersion != r.ResourceVersion || len(r.Raw) > 0 || r.Kind.Kind != "ConfigMap" {
			s.t.Errorf("%s has value %T, %d bytes, kind %s", key, r.Value, len(r.Raw), r.Kind)
		}
		lines = append(lines, key+"@"+r.ResourceVersion)
	}
	return strings.Join(lines, " ")
}

// TestReflect checks that Reflect updates a sink with a list, events and a relist, that it skips
// objects of another type, and that it returns nil after its context has ended.
func TestReflect(t *testing.T) {
	// One of the default handlers would sleep until some time after the last error, for years of the
	// bubble's clock.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		lw, sink := newListerWatcher(
			configMapList("10", configMapAt("5", "a"), configMapAt("6", "b")), configMapList("30", configMapAt("12", "a"))), newTable(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- weir.Reflect[*corev1.ConfigMap](ctx, lw, weir.Options{Selectors: []weir.Selector{{Label: "app=x"}}}, sink)
		}()
		w := <-lw.watches
		synctest.Wait()
		check.Equal(t, sink.values(), "d/a@5 d/b@6", "after the list")
		check.Equal(t, lw.options[0].LabelSelector, "app=x", "the selector")
		w.Add(configMapAt("11", "c"))
		w.Modify(configMapAt("12", "a"))
		w.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "another type", ResourceVersion: "12"}})
		w.Delete(configMapAt("13", "b"))
		synctest.Wait()
		check.Equal(t, sink.values(), "d/a@12 d/c@11", "after events")
		check.Equal(t, sink.rv, "13", "the version")
		gone := apierrors.NewResourceExpired("too old").ErrStatus
		w.Error(&gone)
		<-lw.watches
		synctest.Wait()
		check.Equal(t, sink.values(), "d/a@12", "after the relist")
		check.Equal(t, sink.rv, "30", "the version after the relist")
		cancel()
		check.NoError(t, <-ended)
	})
}

// probed is a listerWatcher that calls a function for the LISTs that request the newest version.
type probed struct {
	*listerWatcher
	probe func(limit int64) runtime.Object
}

func (p probed) List(o metav1.ListOptions) (runtime.Object, error) {
	if o.Limit > 0 {
		return p.probe(o.Limit), nil
	}
	return p.listerWatcher.List(o)
}

// TestReflectProbes checks that Reflect opens a new watch after a request for the newest version
// that hangs or panics, and how many objects such a request has if List reads page after page.
func TestReflectProbes(t *testing.T) {
	handlers, panics := utilruntime.ErrorHandlers, utilruntime.PanicHandlers
	utilruntime.ErrorHandlers, utilruntime.PanicHandlers, utilruntime.ReallyCrash = nil, nil, false
	defer func() {
		utilruntime.ErrorHandlers, utilruntime.PanicHandlers, utilruntime.ReallyCrash = handlers, panics, true
	}()
	for name, test := range map[string]struct {
		probe   func(released <-chan struct{}) runtime.Object
		limits  []int64 // of the first requests
		watches int     // opened at least
	}{
		"hangs":  {func(released <-chan struct{}) runtime.Object { <-released; return configMapList("10") }, []int64{1}, 2},
		"panics": {func(<-chan struct{}) runtime.Object { panic("a fault of the program") }, []int64{1, 1}, 2},
		"pages": {func(<-chan struct{}) runtime.Object {
			return configMapList("10", configMapAt("5", "a"), configMapAt("6", "b"))
		}, []int64{1, 500, 500}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var limits []int64
				released := make(chan struct{})
				lw := probed{newListerWatcher(configMapList("10", configMapAt("5", "a"))), func(limit int64) runtime.Object {
					mu.Lock()
					limits = append(limits, limit)
					mu.Unlock()
					return test.probe(released)
				}}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- weir.Reflect[*corev1.ConfigMap](ctx, lw, weir.Options{}, newTable(t)) }()
				time.Sleep(8 * time.Minute)
				synctest.Wait()
				if len(lw.watches) < test.watches {
					t.Errorf("%d watches, want at least %d", len(lw.watches), test.watches)
				}
				mu.Lock()
				if n := len(test.limits); len(limits) < n || !slices.Equal(limits[:n], test.limits) || name == "hangs" && len(limits) > n {
					t.Errorf("the limits %d, want %d", limits, test.limits)
				}
				mu.Unlock()
				began := time.Now()
				cancel()
				check.NoError(t, <-ended)
				if took := time.Since(began); took > time.Second {
					t.Errorf("ended after %s", took)
				}
				close(released)
			})
		})
	}
}

// TestReflectFails checks the errors of Reflect.
func TestReflectFails(t *testing.T) {
	lw := newListerWatcher(configMapList("10", configMapAt("5", "a")))
	full := newTable(t)
	full.failAt = "end"
	err := weir.Reflect[*corev1.ConfigMap](t.Context(), lw, weir.Options{Name: "maps"}, full)
	if !errors.Is(err, errTable) || !strings.HasPrefix(fmt.Sprint(err), "maps: ") {
		t.Errorf("the error of the sink: %v", err)
	}
	for name, call := range map[string]func() error{
		"no ListerWatcher": func() error { return weir.Reflect[*corev1.ConfigMap](t.Context(), nil, weir.Options{}, newTable(t)) },
		"no Sink":          func() error { return weir.Reflect[*corev1.ConfigMap](t.Context(), lw, weir.Options{}, nil) },
		"a namespace": func() error {
			return weir.Reflect[*corev1.ConfigMap](t.Context(), lw, weir.Options{Namespaces: []string{"d"}}, newTable(t))
		},
		"two selectors": func() error {
			return weir.Reflect[*corev1.ConfigMap](t.Context(), lw, weir.Options{Selectors: []weir.Selector{{}, {Label: "a=b"}}}, newTable(t))
		},
	} {
		check.ErrorIs(t, call(), weir.ErrInvalidOptions, "%s", name)
	}
}
