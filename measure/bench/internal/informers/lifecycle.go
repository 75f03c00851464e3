package informers

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// A rollout replaces up to rolloutPods pods by new ones, in waves of rolloutWave pods. Other pods
// do not change. The replaced pods have neighbouring models, like the pods of one workload. Each
// rollout starts at the next of `rollouts` places, which are spread over all pods.
const (
	rollouts    = 20
	rolloutPods = 250
	rolloutWave = 25
)

// phase is a phase in the life of a pod.
type phase uint8

const (
	ready phase = iota
	unready
	pending     // created, but not scheduled to a node
	scheduled   // on a node, whose kubelet has not noticed
	creating    // the kubelet creates its containers
	terminating // deleted, but its containers still run
	stopped     // deleted, and its containers have ended

	phases
)

// lifeSteps are the changes with which one pod replaces another.
var lifeSteps = []struct {
	event wire.EventType
	phase phase
	old   bool // a change of the replaced pod
}{
	{event: wire.Added, phase: pending},
	{event: wire.Modified, phase: scheduled},
	{event: wire.Modified, phase: creating},
	{event: wire.Modified, phase: unready},
	{event: wire.Modified, phase: ready},
	{event: wire.Modified, phase: terminating, old: true},
	{event: wire.Modified, phase: stopped, old: true},
	{event: wire.Deleted, phase: stopped, old: true},
	{event: wire.Modified, phase: unready},
	{event: wire.Modified, phase: ready},
}

// of returns a copy of a pod, changed to the phase p.
func (p phase) of(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	setReady(&pod.Status, p == ready || p == terminating)
	status := &pod.Status
	switch p {
	case pending, scheduled:
		pod.ManagedFields = slices.DeleteFunc(pod.ManagedFields, ofStatus)
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: status.QOSClass}
		if p == pending {
			pod.Spec.NodeName = ""
			break
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: blankTime}}
	case creating:
		status.Phase, status.PodIP, status.PodIPs = corev1.PodPending, "", nil
		for i := range status.ContainerStatuses {
			c := &status.ContainerStatuses[i]
			c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
			c.Started, c.ContainerID, c.ImageID = ptr.To(false), "", ""
		}
	case terminating, stopped:
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &blankTime, ptr.To(int64(30))
		for i := range status.ContainerStatuses {
			if c := &status.ContainerStatuses[i]; p == stopped {
				c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "Completed", FinishedAt: blankTime, ContainerID: c.ContainerID,
				}}
			}
		}
	}
	return pod
}

func ofStatus(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "status" }

// rolledOut returns the models that a rollout replaces: the first one and their number. n is the
// number of all models.
func rolledOut(rollout, n int) (first, size int) {
	places := min(rollouts, n)
	return rollout % places * n / places, min(rolloutPods, n/places)
}

// isRolledOut reports whether any rollout replaces the pods of a model. n is the number of all
// models.
func isRolledOut(model, n int) bool {
	for r := range rollouts {
		if first, size := rolledOut(r, n); first <= model && model < first+size {
			return true
		}
	}
	return false
}

// rollout writes the changes of the next rollout.
func (h *history) rollout() error {
	first, size := rolledOut(h.rollouts, len(h.pods.models))
	h.rollouts++
	waves := (size + rolloutWave - 1) / rolloutWave
	for turn := range waves + len(lifeSteps) - 1 { // in each turn, each wave takes one step
		for wave := min(turn, waves-1); wave >= 0 && turn-wave < len(lifeSteps); wave-- {
			for m := first + wave*rolloutWave; m < first+min((wave+1)*rolloutWave, size); m++ {
				h.step(h.pods.firstOf(m), turn-wave)
			}
		}
	}
	return h.write()
}

// step adds the event of one step in the replacement of pod i.
func (h *history) step(i, step int) {
	s, does := &h.states[i], lifeSteps[step]
	s.since++
	is := *s
	if is.phase = does.phase; !does.old {
		is = state{since: s.since, generation: s.generation + 1, phase: does.phase}
	}
	if step == len(lifeSteps)-1 {
		*s = is
	}
	h.next++
	h.add(does.event, i, h.version(), is)
}

var rolloutFigures = []figures.Figure{
	figures.Lower("rolloutSeconds", "lifecycle: until a rollout is handled", figures.Seconds),
	figures.Lower("rolloutCPUSeconds", "lifecycle: CPU per rollout", figures.Seconds),
}

// followRollouts measures rollouts, one after the other. After each one it waits until the handlers
// have received all events and no event has followed for a moment.
func (s *subject) followRollouts(ctx context.Context) Figures {
	from := s.caughtUp(ctx)
	begin, to, n := now(s.events.Load()), from, 0
	var busy time.Duration
	for n == 0 || time.Since(begin.at) < s.Duration {
		ordered := time.Now()
		s.tell(ctx, order{Do: doRollout})
		to = s.caughtUp(ctx)
		busy += time.Unix(0, s.last.Load()).Sub(ordered)
		n++
	}
	used, sent := s.since(begin), float64(to-from)
	return Figures{
		"eventsPerSecond":    used.events / busy.Seconds(),
		"receivedPerSecond":  sent / busy.Seconds(),
		"coalescedShare":     1 - used.events/(sent*float64(max(1, s.Handlers))),
		"cpuMicrosPerEvent":  micros(used.cpu) / used.events,
		"allocBytesPerEvent": used.alloc / used.events,
		"rolloutSeconds":     busy.Seconds() / float64(n),
		"rolloutCPUSeconds":  used.cpu.Seconds() / float64(n),
	}
}

// countAndTime is a handler that counts an event with a key, and records the time.
func (s *subject) countAndTime(kind eventKind, key string) {
	s.count(kind, key)
	s.last.Store(time.Now().UnixNano())
}
