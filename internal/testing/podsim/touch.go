package podsim

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Touch changes the status of p, a pod of a Pods, as a kubelet does. If containers were not ready,
// one of them becomes ready. Otherwise one container becomes not ready, or restarts. Touch also
// updates the conditions and the kubelet's managedFields entry. The changes depend only on p and
// rnd. Touch does not set the resourceVersion, because servers do. p may be a shallow copy of a pod
// that other goroutines read: Touch replaces slices and pointers in p, and does not write through
// them.
func Touch(p *corev1.Pod, rnd *rand.Rand) {
	if len(p.Status.ContainerStatuses) == 0 {
		return
	}
	now := lastUpdate(p).Add(time.Duration(1+rnd.IntN(300)) * time.Second)

	statuses := slices.Clone(p.Status.ContainerStatuses)
	p.Status.ContainerStatuses = statuses
	if i := slices.IndexFunc(statuses, func(c corev1.ContainerStatus) bool { return !c.Ready }); i >= 0 {
		statuses[i].Ready = true
	} else if c := &statuses[rnd.IntN(len(statuses))]; rnd.IntN(2) == 0 {
		c.Ready = false
	} else {
		restart(c, rnd, now)
	}

	ready := corev1.ConditionTrue
	if slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool { return !c.Ready }) {
		ready = corev1.ConditionFalse
	}
	p.Status.Conditions = slices.Clone(p.Status.Conditions)
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status != ready {
			c.Status, c.LastTransitionTime = ready, seconds(now)
			c.Reason, c.Message = "", ""
			if ready == corev1.ConditionFalse {
				c.Reason, c.Message = "ContainersNotReady", notReadyMessage(statuses)
			}
		}
	}
	p.ManagedFields = slices.Clone(p.ManagedFields)
	for i := range p.ManagedFields {
		if p.ManagedFields[i].Subresource == "status" {
			p.ManagedFields[i].Time = new(seconds(now))
		}
	}
}

// lastUpdate returns the time of the pod's last status update: the latest of its creation timestamp
// and the times in its managedFields and conditions.
func lastUpdate(p *corev1.Pod) time.Time {
	last := p.CreationTimestamp.Time
	later := func(t metav1.Time) {
		if t.After(last) {
			last = t.Time
		}
	}
	for i := range p.ManagedFields {
		if t := p.ManagedFields[i].Time; t != nil {
			later(*t)
		}
	}
	for i := range p.Status.Conditions {
		later(p.Status.Conditions[i].LastTransitionTime)
	}
	return last
}

func restart(c *corev1.ContainerStatus, rnd *rand.Rand, now time.Time) {
	ended := &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "OOMKilled", FinishedAt: seconds(now.Add(-time.Second)), ContainerID: c.ContainerID,
	}
	if c.State.Running != nil {
		ended.StartedAt = c.State.Running.StartedAt
	}
	c.RestartCount++
	c.LastTerminationState = corev1.ContainerState{Terminated: ended}
	c.ContainerID = randomContainerID(rnd)
	c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(now)}}
}

func notReadyMessage(statuses []corev1.ContainerStatus) string {
	message := "containers with unready status: ["
	for i, sep := 0, ""; i < len(statuses); i++ {
		if !statuses[i].Ready {
			message, sep = message+sep+statuses[i].Name, " "
		}
	}
	return message + "]"
}
