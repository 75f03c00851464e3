package informers

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// text is an encoded pod with blanks in place of the values that differ between its versions. Its
// bytes are never modified; append fills in a copy.
type text struct {
	shared []byte // the start, in memory that is shared with another text of the pod
	own    []byte // the rest
	blanks []blank
}

// blank is the place of a value. It has the length of the value.
type blank struct {
	at int32
	of blankKind
}

type blankKind uint8

const (
	copyBlank       blankKind = iota // part of the name, if a model represents several pods
	uidBlank                         // the last part of the uid, if a model represents several pods
	versionBlank                     // the resourceVersion
	labelBlank                       // the value of changedLabel
	annotationBlank                  // the value of changedAnnotation
	imageBlank                       // the end of the first container's image
	timeBlank                        // the time of the last change of the status
)

// textOf contains the text of each blank before it is filled in. The text of timeBlank depends on
// the encoding.
var textOf = [...]string{
	copyBlank: "%copy%%", uidBlank: "%%%%%uid%%%%", versionBlank: "%%%%%rv%%%", labelBlank: "%lb%",
	annotationBlank: "%annotation%", imageBlank: "%im%",
}

// The label and the annotation that a stub adds to pods, in order to change them.
const (
	changedLabel      = "bench.weir/label"
	changedAnnotation = "bench.weir/annotation"
)

// blankTime is the time that timeBlank replaces.
var blankTime = metav1.Unix(4_102_444_799, 0)

// blankPod returns a copy of a pod with blanks. If the parameter copies is true, the copy
// represents several pods, whose names and uids differ.
func blankPod(pod *corev1.Pod, copies bool) *corev1.Pod {
	pod = pod.DeepCopy()
	if copies {
		pod.Name += "-" + textOf[copyBlank]
		pod.UID = uidPrefix(pod.UID) + types.UID(textOf[uidBlank])
	}
	pod.ResourceVersion = textOf[versionBlank]
	metav1.SetMetaDataLabel(&pod.ObjectMeta, changedLabel, textOf[labelBlank])
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, changedAnnotation, textOf[annotationBlank])
	for i := range pod.ManagedFields {
		if ofStatus(pod.ManagedFields[i]) {
			pod.ManagedFields[i].Time = &blankTime
		}
	}
	if len(pod.Spec.Containers) > 0 {
		pod.Spec.Containers[0].Image += "-" + textOf[imageBlank]
	}
	return pod
}

// uidPrefix returns a uid without its last group.
func uidPrefix(uid types.UID) types.UID {
	const blank = "00000000-0000-4000-8000-"
	if len(uid) < len(blank) {
		return blank
	}
	return uid[:len(blank)]
}

// setReady makes the first container of a status ready or unready, at the time blankTime.
func setReady(status *corev1.PodStatus, ready bool) {
	is, reason, message := corev1.ConditionTrue, "", ""
	if !ready {
		is, reason, message = corev1.ConditionFalse, "ContainersNotReady", "containers with unready status"
	}
	if len(status.ContainerStatuses) > 0 {
		c := &status.ContainerStatuses[0]
		c.Ready = ready
		if !ready {
			message += ": [" + c.Name + "]"
		}
	}
	found := false
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.Reason, c.Message, c.LastTransitionTime = is, reason, message, blankTime
			found = found || c.Type == corev1.PodReady
		}
	}
	if !found {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: is, Reason: reason, Message: message, LastTransitionTime: blankTime,
		})
	}
}

// newText encodes a pod with blanks. If the parameter like is another text of the pod, both texts
// share the memory of their common start.
func newText(e *encoding, pod *corev1.Pod, like *text) (text, error) {
	raw, err := e.encodePod(pod)
	if err != nil {
		return text{}, err
	}
	t := text{own: raw}
	find := func(of blankKind, value []byte) (n int) {
		for at := 0; ; at += len(value) {
			i := bytes.Index(raw[at:], value)
			if i < 0 {
				return n
			}
			at += i
			t.blanks = append(t.blanks, blank{int32(at), of})
			n++
		}
	}
	for of, value := range textOf {
		if n := find(blankKind(of), []byte(value)); blankKind(of) == versionBlank && n != 1 {
			return text{}, fmt.Errorf("%d blanks %q, want one", n, value)
		}
	}
	find(timeBlank, e.appendTime(nil, blankTime.Unix()))
	if like != nil {
		n := 0
		for n < min(len(raw), len(like.own)) && raw[n] == like.own[n] {
			n++
		}
		t.shared, t.own = like.own[:n], bytes.Clone(raw[n:])
	}
	return t, nil
}

// values are the values of the blanks in one version of a pod.
type values struct {
	copy, version int64
	state
}

// append appends the text with its blanks filled in.
func (t *text) append(e *encoding, dst []byte, v *values) []byte {
	at := len(dst)
	dst = append(append(dst, t.shared...), t.own...)
	for _, b := range t.blanks {
		into := dst[at+int(b.at):]
		if b.of == timeBlank {
			e.appendTime(into[:0], firstTime+int64(v.since))
			continue
		}
		var n int64
		switch b.of {
		case copyBlank, uidBlank:
			n = v.copy
		case versionBlank:
			n = v.version
		case labelBlank:
			n = int64(v.label)
		case annotationBlank:
			n = v.annotation
		case imageBlank:
			n = int64(v.image)
		}
		digits(into[:len(textOf[b.of])], n)
	}
	return dst
}

// digits fills dst with the last decimal digits of n, with leading zeros.
func digits(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// firstTime is the time of the first status change of a stub's first pod, in seconds since 1970.
const firstTime = 1_790_000_000
