package informers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// model is a pod, encoded in parts from which bodies are spliced while they are written. What makes
// a version of it one of many is left blank.
type model struct {
	meta, spec part
	status     [2]part // by state.unready
	life       *life   // nil: no rollout replaces its pods
}

// partsOfModel is how many parts a model has, without life.
const partsOfModel = 4

// part is a field of an encoded pod. Its bytes are never changed, only copies of them.
type part struct {
	bytes  []byte
	delta  []byte // makes them this part's where they are a sibling's; else empty
	blanks []blank
}

// blank is where a value is filled in.
type blank struct {
	at int32
	of blankKind
}

type blankKind uint8

// The blanks. Each has as many bytes as what is filled in.
const (
	copyBlank       blankKind = iota // of the name, where a model serves for several pods
	uidBlank                         // its last part, likewise
	versionBlank                     // the resourceVersion
	labelBlank                       // of changedLabel
	annotationBlank                  // of changedAnnotation
	imageBlank                       // the end of the first container's image
	timeBlank                        // when the status changed last
)

// textOf is what stands in a blank until something is filled in. That of timeBlank is the
// encoding's own.
var textOf = [...]string{
	copyBlank: "%copy%%", uidBlank: "%%%%%uid%%%%", versionBlank: "%%%%%rv%%%", labelBlank: "%lb%",
	annotationBlank: "%annotation%", imageBlank: "%im%",
}

// What a stub adds to the pods of their models, so that it can change.
const (
	changedLabel      = "bench.weir/label"
	changedAnnotation = "bench.weir/annotation"
)

// blankTime stands where timeBlank is.
var blankTime = metav1.Unix(4_102_444_799, 0)

// newModel encodes a pod, as what differs from others that are like it. copies says whether it
// serves for several pods, whose names and uids then differ.
func newModel(e encoding, like siblings, pod *corev1.Pod, copies bool) (model, error) {
	pod = blankPod(pod, copies)
	var m model
	var err error
	if m.meta, err = newPart(e, &pod.ObjectMeta); err != nil {
		return m, err
	}
	if n := m.meta.count(versionBlank); n != 1 {
		return m, fmt.Errorf("the blank %q is there %d times", textOf[versionBlank], n)
	}
	if m.spec, err = newPart(e, &pod.Spec); err != nil {
		return m, err
	}
	for i := range m.status {
		setReady(&pod.Status, i == 0)
		if m.status[i], err = newPart(e, &pod.Status); err != nil {
			return m, err
		}
	}
	for field, p := range []*part{&m.meta, &m.spec, &m.status[0], &m.status[1]} {
		*p = like.add(field, *p)
	}
	return m, nil
}

// blankPod copies a pod, with blanks in it.
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
		if pod.ManagedFields[i].Subresource == "status" {
			pod.ManagedFields[i].Time = &blankTime
		}
	}
	if len(pod.Spec.Containers) > 0 {
		pod.Spec.Containers[0].Image += "-" + textOf[imageBlank]
	}
	return pod
}

// uidPrefix returns all of a uid but its last group.
func uidPrefix(uid types.UID) types.UID {
	const size = len("00000000-0000-4000-8000-")
	if len(uid) < size {
		return "00000000-0000-4000-8000-"
	}
	return uid[:size]
}

// setReady makes a status that of a pod whose first container is ready, or not, since a time that
// is left blank.
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

// newPart encodes a field of a pod and finds its blanks.
func newPart(e encoding, field encodable) (part, error) {
	raw, err := e.encode(field)
	if err != nil {
		return part{}, err
	}
	p := part{bytes: raw}
	find := func(of blankKind, text []byte) {
		for at := 0; ; at += len(text) {
			i := bytes.Index(raw[at:], text)
			if i < 0 {
				return
			}
			at += i
			p.blanks = append(p.blanks, blank{int32(at), of})
		}
	}
	for of, text := range textOf {
		find(blankKind(of), []byte(text))
	}
	find(timeBlank, e.appendTime(nil, blankTime.Unix()))
	return p, nil
}

// count counts the blanks of a kind.
func (p *part) count(of blankKind) (n int) {
	for _, b := range p.blanks {
		if b.of == of {
			n++
		}
	}
	return n
}

// values are what is filled into the blanks of one version of a pod.
type values struct {
	copy, version int64
	state
}

// append appends a part with its blanks filled in.
func (p *part) append(e encoding, dst []byte, v *values) []byte {
	at := len(dst)
	dst = append(dst, p.bytes...)
	patch(dst[at:], p.delta)
	for _, b := range p.blanks {
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

// digits fills dst with the last digits of n in decimal, zeros in front.
func digits(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// firstTime is when the status of a stub's first pod changed, in seconds.
const firstTime = 1_790_000_000

// siblings finds parts of one length that have most of their bytes in common, as those of one
// workload's pods have: each is then held as what differs. It holds one part for each field and
// length.
type siblings map[siblingKey]part

type siblingKey struct{ field, length int }

// minGap is how many equal bytes it takes to end a difference: fewer cost more than they save.
const minGap = 16

// add returns p, as what differs from a sibling if that is small.
func (s siblings) add(field int, p part) part {
	key := siblingKey{field, len(p.bytes)}
	base, ok := s[key]
	if !ok {
		s[key] = p
		return p
	}
	delta := diff(base.bytes, p.bytes)
	if len(delta) > len(p.bytes)/2 {
		s[key] = p
		return p
	}
	if slices.Equal(base.blanks, p.blanks) {
		p.blanks = base.blanks
	}
	p.bytes, p.delta = base.bytes, delta
	return p
}

// diff says how to make b of a, which is as long: how many bytes stay, how many are others, those,
// and so on.
func diff(a, b []byte) []byte {
	var delta []byte
	done := 0
	for at := 0; at < len(a); at++ {
		if a[at] == b[at] {
			continue
		}
		end := at + 1
		for i := end; i < len(a) && i < end+minGap; i++ {
			if a[i] != b[i] {
				end = i + 1
			}
		}
		delta = binary.AppendUvarint(delta, uint64(at-done))
		delta = binary.AppendUvarint(delta, uint64(end-at))
		delta = append(delta, b[at:end]...)
		done, at = end, end
	}
	return slices.Clip(delta)
}

// patch makes dst, a copy of a, what diff was told.
func patch(dst, delta []byte) {
	for len(delta) > 0 {
		skip, n := binary.Uvarint(delta)
		delta = delta[n:]
		size, n := binary.Uvarint(delta)
		delta = delta[n:]
		dst = dst[skip:]
		copy(dst, delta[:size])
		dst, delta = dst[size:], delta[size:]
	}
}
