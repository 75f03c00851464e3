package informers

import (
	"context"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Rollouts replace some of a stub's pods by new ones, a wave at a time. All other pods stay as they
// are. A rollout has rolloutPods pods whose models are neighbours, as those of a workload are, or
// as many as there are. Rollouts begin at one of rollouts places in turn, which are spread over all
// pods.
const (
	rollouts    = 20
	rolloutPods = 250
	rolloutWave = 25
)

// phase is a phase in the life of a pod.
type phase uint8

const (
	started     phase = iota // it runs, and is ready or not
	pending                  // created, and on no node
	scheduled                // on a node whose kubelet does not know it
	creating                 // the kubelet creates its containers
	terminating              // deleted, while its containers run
	stopped                  // deleted, and its containers have ended
)

// lifeSteps are the changes by which one pod takes the place of another.
var lifeSteps = []struct {
	event   string
	old     bool // of the pod that is replaced
	phase   phase
	unready bool
}{
	{event: "ADDED", phase: pending},
	{event: "MODIFIED", phase: scheduled},
	{event: "MODIFIED", phase: creating},
	{event: "MODIFIED", phase: started, unready: true},
	{event: "MODIFIED", phase: started},
	{event: "MODIFIED", phase: terminating, old: true},
	{event: "MODIFIED", phase: stopped, old: true},
	{event: "DELETED", phase: stopped, old: true},
	{event: "MODIFIED", phase: started, unready: true},
	{event: "MODIFIED", phase: started},
}

// of returns a copy of a pod as it is in a phase other than started.
func (p phase) of(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	setReady(&pod.Status, p == terminating)
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

// life is a pod in each phase but started, encoded.
type life [stopped][3]part

// newLife encodes a pod in all phases.
func newLife(e encoding, like siblings, pod *corev1.Pod) (*life, error) {
	pod = blankPod(pod, true)
	l := &life{}
	for i := range l {
		is := phase(i + 1).of(pod)
		for field, value := range []encodable{&is.ObjectMeta, &is.Spec, &is.Status} {
			p, err := newPart(e, value)
			if err != nil {
				return nil, err
			}
			l[i][field] = like.add(partsOfModel+len(l[i])*i+field, p)
		}
	}
	return l, nil
}

// rolledOut returns the models of a rollout, of those of n.
func rolledOut(rollout, n int) (first, size int) {
	places := min(rollouts, n)
	return rollout % places * n / places, min(rolloutPods, n/places)
}

// isRolledOut reports whether a rollout replaces a pod of a model, of those of n.
func isRolledOut(model, n int) bool {
	for r := range rollouts {
		if first, size := rolledOut(r, n); first <= model && model < first+size {
			return true
		}
	}
	return false
}

// writeRollout writes the changes of the next rollout.
func (h *history) writeRollout(w io.Writer) (err error) {
	first, size := rolledOut(h.rollouts, len(h.pods.models))
	h.rollouts++
	var b []byte
	waves := (size + rolloutWave - 1) / rolloutWave
	for turn := range waves + len(lifeSteps) - 1 { // each wave takes a step in each turn
		for wave := min(turn, waves-1); wave >= 0 && turn-wave < len(lifeSteps); wave-- {
			for m := first + wave*rolloutWave; m < first+min((wave+1)*rolloutWave, size); m++ {
				b = h.appendStep(b, h.pods.firstOf(m), turn-wave)
				if b, err = flushFull(w, b); err != nil {
					return err
				}
			}
		}
	}
	_, err = w.Write(b)
	return err
}

// appendStep appends a step in the replacement of pod i.
func (h *history) appendStep(dst []byte, i, step int) []byte {
	s, does := &h.states[i], lifeSteps[step]
	s.since++
	is := *s
	if is.phase = does.phase; !does.old {
		is = state{since: s.since, generation: s.generation + 1, phase: does.phase, unready: does.unready}
	}
	if step == len(lifeSteps)-1 {
		*s = is
	}
	h.next++
	return h.pods.appendEvent(dst, does.event, i, h.pods.version()+h.next, is)
}

var rolloutFigures = []comparedFigure{
	{figures.New("rolloutSeconds", "lifecycle: until a rollout is handled", figures.Seconds), lower},
	{figures.New("rolloutCPUSeconds", "lifecycle: CPU per rollout", figures.Seconds), lower},
}

// followRollouts measures rollouts, one after the other, until the handlers have caught up with
// each and nothing has happened for a moment.
func (s *subject) followRollouts(ctx context.Context) (Figures, error) {
	from, err := s.caughtUp(ctx)
	if err != nil {
		return nil, err
	}
	begin, to, n := now(s.events.Load()), from, 0
	var busy time.Duration
	for n == 0 || time.Since(begin.at) < s.Duration {
		ordered := time.Now()
		if err := tell(ctx, s.Stub, order{Do: doRollout}); err != nil {
			return nil, err
		}
		if to, err = s.caughtUp(ctx); err != nil {
			return nil, err
		}
		busy += time.Unix(0, s.last.Load()).Sub(ordered)
		n++
	}
	_, cpu, alloc, handled := s.since(begin)
	sent := float64(to - from)
	return Figures{
		"eventsPerSecond":    handled / busy.Seconds(),
		"receivedPerSecond":  sent / busy.Seconds(),
		"coalescedShare":     1 - handled/(sent*float64(max(1, s.Handlers))),
		"cpuMicrosPerEvent":  micros(cpu) / handled,
		"allocBytesPerEvent": alloc / handled,
		"rolloutSeconds":     busy.Seconds() / float64(n),
		"rolloutCPUSeconds":  cpu.Seconds() / float64(n),
	}, nil
}

// countAndTime counts an event that has a key, and notes when it came. It is a handler.
func (s *subject) countAndTime(kind eventKind, key string) {
	s.count(kind, key)
	s.last.Store(time.Now().UnixNano())
}
