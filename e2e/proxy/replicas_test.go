package proxy

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy"
)

// replicaPods maps the pods that a client has received to their resourceVersions.
type replicaPods map[string]uint64

// apply applies an event and returns its resourceVersion. It checks that the resourceVersion is
// newer than the previous one (last).
func (p replicaPods) apply(t *testing.T, e watch.Event, last uint64) uint64 {
	t.Helper()
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		t.Fatalf("%s %v", e.Type, e.Object)
	}
	rv, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if err != nil || rv <= last {
		t.Fatalf("%s of %s at %d, after %d: %v", e.Type, pod.Name, rv, last, err)
	}
	if e.Type == watch.Deleted {
		delete(p, pod.Name)
	} else {
		p[pod.Name] = rv
	}
	return rv
}

// TestReplicas moves a client between two proxies, from one short watch to the next, while pods are
// created and deleted. It checks that the client receives the changes in order and misses no pod.
// It also checks that the client can read its own write from the other proxy.
func TestReplicas(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "reader", readPods)
	var replicas []*kubernetes.Clientset
	for range 2 {
		s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
		replicas = append(replicas, clientFor(t, as(t, s, "reader")))
	}
	direct := clientFor(t, shared.Config()).CoreV1().Pods("default")
	list, err := replicas[0].CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	check.NoError(t, err)
	known := replicaPods{}
	for i := range list.Items {
		known[list.Items[i].Name] = 0
	}
	last, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	check.NoError(t, err)
	for round := range 20 {
		name := fmt.Sprintf("replicated-%d", round)
		made, err := direct.Create(ctx, newPod(name), metav1.CreateOptions{})
		check.NoError(t, err)
		// The other replica may not have received the pod yet. The read then waits.
		here := replicas[round%2].CoreV1().Pods("default")
		if got, err := here.Get(ctx, name, metav1.GetOptions{ResourceVersion: made.ResourceVersion}); err != nil || got.UID != made.UID {
			t.Fatalf("%v, %v", got, err)
		}
		if round%3 == 2 {
			check.NoError(t, direct.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		}
		w, err := here.Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(last)})
		check.NoError(t, err)
		want := watch.Added
		if round%3 == 2 {
			want = watch.Deleted
		}
		for e := range w.ResultChan() {
			last = known.apply(t, e, last)
			if e.Type == want && e.Object.(*corev1.Pod).Name == name {
				break
			}
		}
		w.Stop()
	}
	now, err := direct.List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	check.Equal(t, len(now.Items), len(known), "%d pods are known, and there", len(known))
	for i := range now.Items {
		if _, ok := known[now.Items[i].Name]; !ok {
			t.Errorf("%s was missed", now.Items[i].Name)
		}
	}
}
