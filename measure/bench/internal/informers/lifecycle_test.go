package informers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestRollouts checks that rollouts replace pods by new ones, which go through all phases, and do
// not change other pods.
func TestRollouts(t *testing.T) {
	for name, enc := range encodings {
		for _, models := range []int{300, 70} { // one pod per model, or several
			t.Run(name, func(t *testing.T) { testRollouts(t, enc, models, 300) })
		}
	}
}

func testRollouts(t *testing.T, enc *encoding, models, n int) {
	url, client := serve(t, makePods(t, enc, models, n, true))
	list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	held := map[string]*corev1.Pod{}
	for i := range list.Items {
		held[list.Items[i].Name] = &list.Items[i]
	}
	w := openWatch(t, client, false)
	steps, replaced := map[string]string{}, 0
	for range rollouts + 1 { // the last rollout replaces pods of the first one again
		check.NoError(t, tell(t.Context(), url, order{Do: doRollout}))
		const size = 3 // 70 models in 20 places
		pods := min(rolloutPods, models/rollouts)
		if models == 70 && pods != size {
			t.Fatalf("a rollout has %d pods, want %d", pods, size)
		}
		for range pods * len(lifeSteps) {
			e := next(t, w)
			pod := e.Object.(*corev1.Pod)
			if (held[pod.Name] == nil) != (e.Type == watch.Added) {
				t.Fatalf("%s of %s, which is there: %v", e.Type, pod.Name, held[pod.Name] != nil)
			}
			steps[pod.Name] += stepOf(e.Type, pod) + " "
			if held[pod.Name] = pod; e.Type == watch.Deleted {
				delete(held, pod.Name)
				replaced++
			}
		}
		if _, err := waitSettled(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		if len(held) != n {
			t.Fatalf("%d pods are left of %d", len(held), n)
		}
	}
	const born, dies = "pending scheduled creating unready ready unready ready ", "terminating stopped deleted "
	for name, got := range steps {
		if got != born && got != dies && got != born+dies {
			t.Errorf("%s was %s", name, got)
		}
	}
	check.Equal(t, replaced, (rollouts+1)*(models/rollouts), "pods were replaced")
}

// stepOf returns the phase of a pod, from what kube-scheduler and the kubelet have written.
func stepOf(event watch.EventType, pod *corev1.Pod) string {
	ready := false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	containers := pod.Status.ContainerStatuses
	switch {
	case event == watch.Deleted:
		return "deleted"
	case pod.DeletionTimestamp != nil && containers[0].State.Terminated != nil:
		return "stopped"
	case pod.DeletionTimestamp != nil:
		return "terminating"
	case pod.Spec.NodeName == "":
		return "pending"
	case len(containers) == 0:
		return "scheduled"
	case containers[0].State.Waiting != nil && pod.Status.PodIP == "":
		return "creating"
	case !ready:
		return "unready"
	}
	return "ready"
}

// TestQuietPods checks that rollouts replace only a fixed number of pods if there are many pods. If
// a stub has few models, each rollout must still replace at least one.
func TestQuietPods(t *testing.T) {
	const n = 50_000
	replaced := 0
	for m := range n {
		if isRolledOut(m, n) {
			replaced++
		}
	}
	if want := rollouts * rolloutPods; replaced != want {
		t.Errorf("rollouts replace %d of %d pods, want %d", replaced, n, want)
	}
	for _, few := range []int{1, 2, 19, 20, 21, 39, 41} {
		for r := range rollouts {
			first, size := rolledOut(r, few)
			if size < 1 || first < 0 || first+size > few || !isRolledOut(first, few) {
				t.Errorf("rollout %d of %d models: %d from %d on", r, few, size, first)
			}
		}
	}
}

// TestLifeOfABarePod checks that a pod with few fields also goes through all phases.
func TestLifeOfABarePod(t *testing.T) {
	for _, pod := range []*corev1.Pod{{}, podsim.New(1, 1).Pod(0)} {
		pod.Namespace, pod.Name = "a", "b"
		for p := pending; p <= stopped; p++ {
			if p.of(pod).Name != "b" {
				t.Errorf("phase %d has lost the pod's name", p)
			}
		}
		if pod.DeletionTimestamp != nil {
			t.Error("the pod itself has changed")
		}
	}
}
