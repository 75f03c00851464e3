package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/internal/testing/check"
)

// watchFrom sends a WATCH of pods from resourceVersion. It returns the error of the request, or of
// an ERROR event that arrives first. If an event of another type arrives first, or if no event
// arrives within two seconds, it returns nil.
func watchFrom(ctx context.Context, t *testing.T, client kubernetes.Interface, resourceVersion string) error {
	t.Helper()
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: resourceVersion, TimeoutSeconds: new(int64(2))})
	if err != nil {
		return err
	}
	defer w.Stop()
	if event, ok := <-w.ResultChan(); ok && event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	return nil
}

// newest returns the current resourceVersion of the pods.
func newest(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 1})
	check.NoError(t, err)
	return list.ResourceVersion
}

func createPod(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/c:1"}},
	}}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitForDefault waits until the API server has created the namespace default.
func waitForDefault(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=default"})
	check.NoError(t, err)
	defer w.Stop()
	select {
	case <-w.ResultChan():
	case <-time.After(time.Minute):
		t.Fatal("there is no namespace default")
	}
}

func TestCompactBehindWatchCache(t *testing.T) {
	client := admin(t, shared)
	waitForDefault(t, client)
	old := newest(t, client)
	createPod(t, client, "behind-watch-cache")
	createPod(t, client, "behind-watch-cache-too")
	if _, err := shared.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := watchFrom(t.Context(), t, client, old); err != nil {
		t.Errorf("the watch cache does not answer for etcd: %v", err)
	}
}

func TestRestartForgets(t *testing.T) {
	client := admin(t, shared)
	waitForDefault(t, client)
	old := newest(t, client)
	createPod(t, client, "before-restart")
	shared.KillAPIServer()
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a killed API server answers")
	}
	check.NoError(t, shared.StartAPIServer(t.Context()))
	if err := shared.StartAPIServer(t.Context()); err == nil {
		t.Error("a running API server can be started")
	}
	if err := watchFrom(t.Context(), t, client, old); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a WATCH from before the watch cache was filled: %v, want 410", err)
	}
}

func TestExpire(t *testing.T) {
	client := admin(t, shared)
	waitForDefault(t, client)
	createPod(t, client, "before-expire")
	old := newest(t, client)
	check.NoError(t, shared.Expire(t.Context()))
	if err := watchFrom(t.Context(), t, client, old); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a WATCH from the newest resourceVersion before Expire: %v, want 410", err)
	}
	if err := watchFrom(t.Context(), t, client, newest(t, client)); err != nil {
		t.Errorf("a WATCH from the newest resourceVersion: %v", err)
	}
}
