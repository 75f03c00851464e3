package informertest_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/check"
)

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// TestWatchFromAhead checks a WATCH from a resourceVersion that the server has not reached. As with
// kube-apiserver, it must receive no event until the server has passed this resourceVersion. It
// must receive a bookmark every minute, from the time when the server has reached the
// resourceVersion.
func TestWatchFromAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer()
		defer server.Close()
		w := watchFrom(t, server, "1009")
		defer w.Stop()
		server.Put(podNamed("below"))
		time.Sleep(90 * time.Second)
		server.Advance(7)
		server.Put(podNamed("at"))
		expectEvents(t, w)
		time.Sleep(time.Minute)
		expectEvents(t, w, "BOOKMARK  1009")
		server.Put(podNamed("above"))
		time.Sleep(time.Minute)
		expectEvents(t, w, "ADDED above 1010", "BOOKMARK  1010")
	})
}

func watchFrom(t *testing.T, server *informertest.Server, rv string) watch.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Config())
	check.NoError(t, err)
	w, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv, AllowWatchBookmarks: true})
	check.NoError(t, err)
	return w
}

// expectEvents checks the events that a watch has received so far, as "type name resourceVersion".
func expectEvents(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	var got []string
	for {
		synctest.Wait()
		select {
		case e := <-w.ResultChan():
			pod := e.Object.(*corev1.Pod)
			got = append(got, fmt.Sprintf("%s %s %s", e.Type, pod.Name, pod.ResourceVersion))
			continue
		default:
		}
		break
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
