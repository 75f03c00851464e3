package clientgo

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	cachetest "k8s.io/client-go/tools/cache/testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitTimeout bounds every wait of the tests.
const waitTimeout = 2 * time.Minute

// constructor makes an informer: client-go's or ours.
type constructor func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// bothConstructors are the two that must behave alike.
var bothConstructors = map[string]constructor{
	"client-go": cache.NewSharedIndexInformer,
	"weir":      NewSharedIndexInformer,
}

// run runs an informer until the test ends or stop is called.
func run(t *testing.T, inf cache.SharedIndexInformer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// synced waits until everything is done.
func synced(t *testing.T, checkers ...cache.DoneChecker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if !cache.WaitFor(ctx, "", checkers...) {
		t.Fatal("not synced")
	}
}

// watches counts opened watches, so that a test can wait for the next: some fakes lose what changes
// between a list and its watch, and others make the informer list again.
type watches chan struct{}

func newWatches() watches { return make(watches, 100) }

func (w watches) wait(t *testing.T) {
	t.Helper()
	select {
	case <-w:
	case <-time.After(waitTimeout):
		t.Fatal("no watch was opened")
	}
}

// fakeSource is a FakeControllerSource that reports its watches.
type fakeSource struct {
	*cachetest.FakeControllerSource
	watches watches
}

func newFakeSource(t *testing.T) fakeSource {
	f := fakeSource{cachetest.NewFakeControllerSource(), newWatches()}
	t.Cleanup(f.Shutdown)
	return f
}

func (f fakeSource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.FakeControllerSource.Watch(o)
	if err == nil {
		f.watches <- struct{}{}
	}
	return w, err
}

// recorder is a handler that records its calls.
type recorder struct {
	mu      sync.Mutex
	lines   []string
	changed chan struct{}
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{})} }

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) OnAdd(obj any, initial bool) {
	if initial {
		r.note("add %s initial", show(obj))
		return
	}
	r.note("add %s", show(obj))
}
func (r *recorder) OnUpdate(was, is any) { r.note("update %s -> %s", show(was), show(is)) }
func (r *recorder) OnDelete(obj any)     { r.note("delete %s", show(obj)) }

// show formats what tests compare of an object: key, resourceVersion, the label v.
func show(obj any) string {
	if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return "tombstone " + tomb.Key + " " + show(tomb.Obj)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return fmt.Sprintf("%s/%s@%s v=%s", m.GetNamespace(), m.GetName(), m.GetResourceVersion(), m.GetLabels()["v"])
}

// wait waits for a line.
func (r *recorder) wait(t *testing.T, line string) {
	t.Helper()
	r.until(t, line, func(lines []string) bool {
		for _, l := range lines {
			if l == line {
				return true
			}
		}
		return false
	})
}

func (r *recorder) waitCount(t *testing.T, n int) {
	t.Helper()
	r.until(t, fmt.Sprint(n, " lines"), func(lines []string) bool { return len(lines) >= n })
}

func (r *recorder) until(t *testing.T, what string, cond func([]string) bool) {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		r.mu.Lock()
		ok, changed, lines := cond(r.lines), r.changed, strings.Join(r.lines, "\n")
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited in vain for %s; there was:\n%s", what, lines)
		}
	}
}

// all returns the lines so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.lines...)
}

// sorted returns the lines sorted, because the objects of a list come in no order.
func (r *recorder) sorted() string {
	lines := r.all()
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func pod(name, v string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: "uid-" + "1", Labels: map[string]string{"v": v}},
		Spec:       corev1.PodSpec{NodeName: "n" + v},
	}
}

func shown(objects []any) string {
	var lines []string
	for _, o := range objects {
		lines = append(lines, show(o))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// plainListerWatcher is a ListerWatcher that ignores contexts, as old ones do.
type plainListerWatcher struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (p plainListerWatcher) List(o metav1.ListOptions) (runtime.Object, error)   { return p.list(o) }
func (p plainListerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) { return p.watch(o) }

// IsWatchListSemanticsUnSupported keeps client-go from asking for initial events in place of a list.
func (plainListerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

// statusOf returns the status of an error as servers send it.
func statusOf(err error) *metav1.Status {
	status := err.(apierrors.APIStatus).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}
