package clientgo

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// openWatcher is a watch whose Stop does nothing.
type openWatcher chan watch.Event

func (w openWatcher) Stop()                          {}
func (w openWatcher) ResultChan() <-chan watch.Event { return w }

// TestSharedChannel checks that no event is lost and no goroutine leaks if all watches of a
// ListerWatcher share one channel, which is never closed.
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
	time.Sleep(callGrace) // in which a drain ends; the bubble reports leaked goroutines
	synctest.Wait()
}
