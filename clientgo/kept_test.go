package clientgo

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
)

// TestSlimmingTransform: a transform takes a few texts and the start time of each pod into another, of which a handler keeps the same. Then
// the pods that were decoded for it are not kept, and none came through the client.
func TestSlimmingTransform(t *testing.T) {
	const pods = 50
	server := serve(t, apiserver.Options{Pods: pods})
	cfg := capturing(server.Config())
	cfg.ContentType = k8sruntime.ContentTypeProtobuf
	client := kubernetes.NewForConfigOrDie(cfg)
	throughClient := 0
	inf := NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
			list, err := client.CoreV1().Pods("").List(ctx, o)
			if err == nil {
				throughClient += len(list.Items)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods("").Watch(ctx, o)
		},
	}, &corev1.Pod{}, 0)
	var decoded []weak.Pointer[corev1.Pod]
	if err := inf.SetTransform(func(obj any) (any, error) {
		p := obj.(*corev1.Pod)
		decoded = append(decoded, weak.Make(p))
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: p.Labels},
			Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName},
			Status:     corev1.PodStatus{StartTime: p.Status.StartTime},
		}, nil
	}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	times := map[string]*metav1.Time{}
	handler, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		p := obj.(*corev1.Pod)
		mu.Lock()
		defer mu.Unlock()
		times[p.Namespace+"/"+p.Name] = p.Status.StartTime
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); inf.RunWithContext(ctx) }()
	synced(t, handler.HasSyncedChecker())
	cancel()
	<-ended
	runtime.GC()
	kept := 0
	for _, p := range decoded {
		if p.Value() != nil {
			kept++
		}
	}
	if len(decoded) != pods || len(times) != pods || kept > 0 {
		t.Errorf("%d pods were transformed and %d handled of %d; %d are kept", len(decoded), len(times), pods, kept)
	}
	if throughClient > 0 {
		t.Errorf("%d pods came through the client", throughClient)
	}
	runtime.KeepAlive(times)
}
