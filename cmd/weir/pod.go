package main

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
)

// podOf decodes the pod of an informer's item. encoding is the informer's encoding.
func podOf[T weir.Object](item weir.Item[T], encoding weir.Encoding) (*corev1.Pod, error) {
	if encoding != weir.JSON {
		object, err := item.Object()
		if err != nil {
			return nil, err
		}
		return any(object).(*corev1.Pod), nil
	}
	raw, err := item.AppendRaw(nil)
	if err != nil {
		return nil, err
	}
	pod := new(corev1.Pod)
	if err := json.Unmarshal(raw, pod); err != nil {
		return nil, fmt.Errorf("decode %s: %w", item.Key(), err)
	}
	return pod, nil
}

// podCells returns the cells after a pod's name: those of podColumns, and those of wideColumns if
// wide is set.
func podCells(pod *corev1.Pod, wide bool) []string {
	phase := string(pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	count := countContainers(pod)
	cells := []string{phase, fmt.Sprintf("%d/%d", count.ready, count.all), pod.Spec.NodeName}
	if wide {
		cells = append(cells, fmt.Sprint(count.restarts), pod.Status.PodIP)
	}
	return cells
}

// containerCount contains the number of a pod's containers, the number of ready ones, and the
// number of their restarts.
type containerCount struct{ ready, all, restarts int }

// countContainers counts like the API server does for kubectl. A sidecar (an init container with
// restartPolicy Always) counts as a container. For other init containers, only restarts count, and
// only until the pod is initialized.
func countContainers(pod *corev1.Pod) containerCount {
	sidecars := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
		}
	}
	count := containerCount{all: len(pod.Spec.Containers) + len(sidecars)}
	var ofSidecars int // restarts
	initialized := true
	for _, s := range pod.Status.InitContainerStatuses {
		count.restarts += int(s.RestartCount)
		if sidecars[s.Name] {
			ofSidecars += int(s.RestartCount)
		}
		succeeded := s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		serves := !succeeded && sidecars[s.Name] && s.Started != nil && *s.Started
		if serves && s.Ready {
			count.ready++
		}
		if initialized = succeeded || serves; !initialized {
			break // the following init containers wait for it
		}
	}
	if !initialized && !saysInitialized(pod) {
		return count
	}
	count.restarts = ofSidecars
	for _, s := range pod.Status.ContainerStatuses {
		count.restarts += int(s.RestartCount)
		if s.Ready && s.State.Running != nil {
			count.ready++
		}
	}
	return count
}

// saysInitialized reports whether the pod was ever initialized. Its sidecars may have failed since.
func saysInitialized(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue
	})
}
