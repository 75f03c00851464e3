package informertest

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restOfPod is the annotation in which MetadataOf stores, as JSON, the spec and status of a pod.
const restOfPod = "informertest.weir/rest"

// MetadataOf returns the metadata of a pod as the server sends it to clients that request only
// metadata. It adds an annotation with the spec and status, so that informers of metadata can also
// run the stories.
func MetadataOf(p *corev1.Pod) *metav1.PartialObjectMetadata {
	rest, err := json.Marshal(&corev1.Pod{Spec: p.Spec, Status: p.Status})
	if err != nil {
		// This cannot happen: pods can always be encoded.
		panic(fmt.Sprintf("encode pod %s/%s: %v", p.Namespace, p.Name, err))
	}
	return metadataOf(p, string(rest))
}

func metadataOf(p *corev1.Pod, rest string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}
	if m.Annotations = maps.Clone(m.Annotations); m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[restOfPod] = rest
	return m
}

// PodOf returns the pod from which MetadataOf made m. If m's annotation does not contain a pod, the
// result has only the metadata. The result shares memory with m.
func PodOf(m *metav1.PartialObjectMetadata) *corev1.Pod {
	p := &corev1.Pod{}
	if json.Unmarshal([]byte(m.Annotations[restOfPod]), p) != nil {
		p = &corev1.Pod{}
	}
	p.ObjectMeta = m.ObjectMeta
	p.Annotations = maps.Clone(m.Annotations)
	if delete(p.Annotations, restOfPod); len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	return p
}
