package clientgo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// blocked is a ListerWatcher that ignores contexts. Its List or its Watch blocks until the channel
// is closed.
type blocked struct {
	list, watch chan struct{} // nil does not block
	watcher     *watch.FakeWatcher
}

func (b blocked) List(metav1.ListOptions) (runtime.Object, error) {
	if b.list != nil {
		<-b.list
	}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (b blocked) Watch(metav1.ListOptions) (watch.Interface, error) {
	if b.watch != nil {
		<-b.watch
	}
	return b.watcher, nil
}

func (blocked) IsWatchListSemanticsUnSupported() bool { return true }

// TestStopWhileBlocked checks that an informer stops although its ListerWatcher blocks and ignores
// contexts, and that a watch which the call returns later is stopped. client-go 0.37 waits for
// Watch.
func TestStopWhileBlocked(t *testing.T) {
	for name, test := range map[string]struct {
		build constructor
		make  func(gate chan struct{}) blocked
	}{
		"client-go, List": {cache.NewSharedIndexInformer, func(gate chan struct{}) blocked { return blocked{list: gate} }},
		"List":            {NewSharedIndexInformer, func(gate chan struct{}) blocked { return blocked{list: gate} }},
		"Watch":           {NewSharedIndexInformer, func(gate chan struct{}) blocked { return blocked{watch: gate} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				lw := test.make(gate)
				lw.watcher = watch.NewFake()
				inf := test.build(lw, &corev1.Pod{}, 0, cache.Indexers{})
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan struct{})
				go func() { defer close(ended); inf.RunWithContext(ctx) }()
				time.Sleep(time.Minute)
				cancel()
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Error("not stopped within 10 s")
				}
				close(gate)
				<-ended
				synctest.Wait()
				if lw.watch != nil && !lw.watcher.IsStopped() {
					t.Error("the watch that came late goes on")
				}
			})
		})
	}
}
