package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestPodCells checks that the container cells of a pod's row equal those that the API server
// returns to kubectl.
func TestPodCells(t *testing.T) {
	always, yes := corev1.ContainerRestartPolicyAlways, true
	plain, sidecar := corev1.Container{Name: "plain"}, corev1.Container{Name: "sidecar", RestartPolicy: &always}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	main := corev1.ContainerStatus{Name: "main", Ready: true, State: running, RestartCount: 1}
	served := corev1.ContainerStatus{Name: "sidecar", Ready: true, Started: &yes, State: running, RestartCount: 20}
	initialized := []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}}
	for name, tc := range map[string]struct {
		inits      []corev1.Container
		initStates []corev1.ContainerStatus
		states     []corev1.ContainerStatus
		conditions []corev1.PodCondition
		want       string
	}{
		"one container": {states: []corev1.ContainerStatus{main}, want: "1/1 1"},
		"a container that is not ready": {
			states: []corev1.ContainerStatus{{Name: "main", State: running}}, want: "0/1 0",
		},
		"a container that no longer runs": {
			states: []corev1.ContainerStatus{{Name: "main", Ready: true, State: ended(0), RestartCount: 2}}, want: "0/1 2",
		},
		"a sidecar": {
			inits: []corev1.Container{sidecar}, initStates: []corev1.ContainerStatus{served}, states: []corev1.ContainerStatus{main},
			conditions: initialized, want: "2/2 21",
		},
		"a sidecar that crashes": {
			inits: []corev1.Container{sidecar}, initStates: []corev1.ContainerStatus{{Name: "sidecar", State: waiting, RestartCount: 20}},
			states: []corev1.ContainerStatus{main}, conditions: initialized, want: "1/2 21",
		},
		"an init container that has ended": {
			inits: []corev1.Container{plain}, initStates: []corev1.ContainerStatus{{Name: "plain", State: ended(0), RestartCount: 300}},
			states: []corev1.ContainerStatus{main}, want: "1/1 1",
		},
		"an init container that fails": {
			inits: []corev1.Container{sidecar, plain, {Name: "later"}},
			initStates: []corev1.ContainerStatus{
				served, {Name: "plain", State: ended(1), RestartCount: 300}, {Name: "later", State: running, RestartCount: 4000},
			},
			states: []corev1.ContainerStatus{{Name: "main", State: waiting}}, want: "1/2 320",
		},
		"before anything is known": {inits: []corev1.Container{plain, sidecar}, want: "0/2 0"},
	} {
		pod := &corev1.Pod{
			Spec:   corev1.PodSpec{InitContainers: tc.inits, Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{InitContainerStatuses: tc.initStates, ContainerStatuses: tc.states, Conditions: tc.conditions},
		}
		cells := podCells(pod, true)
		check.Equal(t, strings.Join([]string{cells[1], cells[3]}, " "), tc.want, "%s", name)
	}
}
