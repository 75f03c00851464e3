package podsim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// runningStatus returns the status of a pod whose containers all run and are ready. imageIDs
// contains the image IDs of the containers, in their order.
func runningStatus(pod *corev1.Pod, imageIDs []string, rnd *rand.Rand, host, ip [4]byte) corev1.PodStatus {
	created := pod.CreationTimestamp.Time
	ready := created.Add(time.Duration(8+rnd.IntN(50)) * time.Second)
	hostIP, podIP := netip.AddrFrom4(host).String(), netip.AddrFrom4(ip).String()

	condition := func(t corev1.PodConditionType, at time.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: t, ObservedGeneration: 1, Status: corev1.ConditionTrue, LastTransitionTime: seconds(at)}
	}
	status := corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			condition(corev1.PodReadyToStartContainers, created.Add(4*time.Second)),
			condition(corev1.PodInitialized, created),
			condition(corev1.PodReady, ready),
			condition(corev1.ContainersReady, ready),
			condition(corev1.PodScheduled, created),
		},
		HostIP:    hostIP,
		HostIPs:   []corev1.HostIP{{IP: hostIP}},
		PodIP:     podIP,
		PodIPs:    []corev1.PodIP{{IP: podIP}},
		StartTime: new(seconds(created)),
		QOSClass:  corev1.PodQOSBurstable,
	}
	for i, imageID := range imageIDs {
		c := &pod.Spec.Containers[i]
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{
				StartedAt: seconds(created.Add(time.Duration(3+rnd.IntN(5)) * time.Second)),
			}},
			Ready:       true,
			Image:       c.Image,
			ImageID:     imageID,
			ContainerID: randomContainerID(rnd),
			Started:     new(true),
		})
	}
	return status
}
