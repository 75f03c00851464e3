package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// template is a pod as protobuf with blanks in it, from which many pods are made by filling them in.
type template struct {
	bytes     []byte
	name, uid int // where the digits begin
	version   int
}

// The blanks. Their digits are what is filled in; each must be found once.
const (
	nameBlank    = "-%%%%%%%"
	uidBlank     = "00000000-0000-4000-8000-%%%%%uid%%%%"
	versionBlank = "%%%%%rv%%%"

	nameDigits    = 7
	uidDigits     = 12
	versionDigits = 10
)

// blankPod is a copy of the pod with blanks for what makes it one of many.
func blankPod(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Name += nameBlank
	pod.UID = types.UID(uidBlank)
	pod.ResourceVersion = versionBlank
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod
}

// newItem makes the template of a list's item.
func newItem(pod *corev1.Pod) (template, error) {
	raw, err := blankPod(pod).Marshal()
	if err != nil {
		return template{}, err
	}
	return findBlanks(raw)
}

// newFrame makes the template of a watch's event, its length in front.
func newFrame(event string, pod *corev1.Pod) (template, error) {
	var object bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(blankPod(pod), &object); err != nil {
		return template{}, err
	}
	raw, err := frame(event, object.Bytes())
	if err != nil {
		return template{}, err
	}
	return findBlanks(raw)
}

// frame frames an event whose object is in its envelope.
func frame(event string, object []byte) ([]byte, error) {
	e := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	raw, err := e.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), nil
}

func findBlanks(raw []byte) (template, error) {
	t := template{bytes: raw}
	for _, b := range []struct {
		at    *int
		blank string
		skip  int
	}{
		{&t.name, nameBlank, len(nameBlank) - nameDigits},
		{&t.uid, uidBlank, len(uidBlank) - uidDigits},
		{&t.version, versionBlank, 0},
	} {
		if n := bytes.Count(raw, []byte(b.blank)); n != 1 {
			return t, fmt.Errorf("the blank %q is there %d times", b.blank, n)
		}
		*b.at = bytes.Index(raw, []byte(b.blank)) + b.skip
	}
	return t, nil
}

// append appends pod number n in a version.
func (t template) append(dst []byte, n int, version int64) []byte {
	at := len(dst)
	dst = append(dst, t.bytes...)
	digits(dst[at+t.name:][:nameDigits], int64(n))
	digits(dst[at+t.uid:][:uidDigits], int64(n))
	digits(dst[at+t.version:][:versionDigits], version)
	return dst
}

// digits fills dst with n in decimal, zeros in front.
func digits(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}

// firstVersion is the resourceVersion that a stub begins at; it has as many digits as the blank.
const firstVersion = 1_000_000_000

func formatVersion(v int64) string { return strconv.FormatInt(v, 10) }
