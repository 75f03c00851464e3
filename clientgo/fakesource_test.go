package clientgo

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	cachetest "k8s.io/client-go/tools/cache/testing"
)

// watches receives a value for each opened watch, so that a test can wait for the next: some fakes
// lose changes between a list and its watch, and others make the informer list again.
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

// plainListerWatcher is a ListerWatcher that ignores contexts, as old ones do.
type plainListerWatcher struct {
	list  func(metav1.ListOptions) (runtime.Object, error)
	watch func(metav1.ListOptions) (watch.Interface, error)
}

func (p plainListerWatcher) List(o metav1.ListOptions) (runtime.Object, error)   { return p.list(o) }
func (p plainListerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) { return p.watch(o) }

// IsWatchListSemanticsUnSupported keeps client-go from requesting initial events instead of a list.
func (plainListerWatcher) IsWatchListSemanticsUnSupported() bool { return true }

func pod(name, v string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: "uid-" + "1", Labels: map[string]string{"v": v}},
		Spec:       corev1.PodSpec{NodeName: "n" + v},
	}
}

// statusOf returns the status of an error as servers send it.
func statusOf(err error) *metav1.Status {
	status := err.(apierrors.APIStatus).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}
