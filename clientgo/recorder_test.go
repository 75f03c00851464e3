package clientgo

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

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

// show returns the parts of an object that tests compare, as text: the key, the resourceVersion and
// the value of the label v.
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

// wait waits until the recorder has recorded a line.
func (r *recorder) wait(t *testing.T, line string) {
	t.Helper()
	r.until(t, line, func(lines []string) bool { return slices.Contains(lines, line) })
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

// all returns the lines that were recorded so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// sorted returns the recorded lines, sorted, because an informer delivers the objects of a list in
// no order.
func (r *recorder) sorted() string {
	return strings.Join(slices.Sorted(slices.Values(r.all())), "\n")
}

func shown(objects []any) string {
	var lines []string
	for _, o := range objects {
		lines = append(lines, show(o))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// recordedInformer is an informer of a FakeControllerSource. Its handler is a recorder.
type recordedInformer struct {
	source       fakeSource
	informer     cache.SharedIndexInformer
	calls        *recorder
	registration cache.ResourceEventHandlerRegistration
	stop         func()
}

func newRecordedInformer(t *testing.T, make constructor) *recordedInformer {
	s := &recordedInformer{source: newFakeSource(t), calls: newRecorder(), stop: func() {}}
	s.informer = make(s.source, &corev1.Pod{}, time.Hour, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var err error
	s.registration, err = s.informer.AddEventHandlerWithResyncPeriod(s.calls, 0)
	check.NoError(t, err)
	return s
}

// start runs the informer. It waits until the handler has handled the first list and the watch is
// open.
func (s *recordedInformer) start(t *testing.T) {
	t.Helper()
	s.stop = run(t, s.informer)
	synced(t, s.informer, s.registration)
	s.source.watches.wait(t)
}
