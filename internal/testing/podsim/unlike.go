package podsim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// One pod of each lonerEvery pods belongs to no workload.
const lonerEvery = 5

// Numbers of streams of random numbers: templateStream for the values that a workload's replicas
// share, and lonerStream for pods that belong to no workload.
const (
	templateStream uint64 = 3 << 61
	lonerStream    uint64 = 5 << 60
)

// Amounts of text in a pod's annotations.
const (
	minText, maxText = 200, 1_700 // bytes of text in the annotations of a pod template
	// bytes of hexadecimal text in an annotation that differs for each pod
	ownText = 120
)

// template contains the values that the pods of a workload share, like a pod template.
type template struct {
	app
	labels      map[string]string
	annotations map[string]string
	spec        corev1.PodSpec
	owners      []metav1.OwnerReference
}

// writer creates pod templates from random words.
type writer struct{ Words }

// unlikeWithoutFields creates pod i of a set of NewUnlike or NewRandom, without managedFields.
func (p *Pods) unlikeWithoutFields(i int) *corev1.Pod {
	t := p.template(i)
	w := &writer{Words{Rand: p.random(podStream, i), Noise: p.variety == random}}
	node := i * nodeStride % p.nodes
	created := t.created.Add(time.Duration(w.Rand.IntN(3600)) * time.Second)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              t.name + "-" + t.hash + "-" + t.podSuffix(i%replicasPerApp),
			GenerateName:      t.name + "-" + t.hash + "-",
			Namespace:         t.namespace,
			UID:               UID(w.Rand),
			Generation:        1,
			CreationTimestamp: seconds(created),
			Labels:            t.labels,
			Annotations:       t.annotations,
			OwnerReferences:   t.owners,
		},
		Spec: t.spec,
	}
	pod.Annotations["example.com/placement"] = Hex(w.Rand, ownText)
	pod.Spec.NodeName = nodeName(node)
	t.addToken(&pod.Spec, "kube-api-access-"+Hash(w.Rand, 5))
	pod.Status = runningStatus(pod, t.imageIDs(len(pod.Spec.Containers)), w.Rand, nodeIP(node), podIP(i))
	return pod
}

// template creates the template of pod i: the template of the pod's workload, or a template for
// this pod only.
func (p *Pods) template(i int) *template {
	if p.variety == random {
		return p.randomTemplate(i)
	}
	if i%lonerEvery == lonerEvery-1 {
		return p.lonerTemplate(i)
	}
	at := i / replicasPerApp
	t := &template{app: p.app(at)}
	w := &writer{Words{Rand: p.random(templateStream, at)}}
	t.labels = map[string]string{"app": t.name, "pod-template-hash": t.hash, "team": t.team}
	t.owners = []metav1.OwnerReference{w.owner(t.name+"-"+t.hash, t.ownerUID)}
	t.fill(w)
	return t
}

// lonerTemplate creates the template of a pod that belongs to no workload, such as a pod that a
// user or a CI runner has created.
func (p *Pods) lonerTemplate(i int) *template {
	w := &writer{Words{Rand: p.random(lonerStream, i)}}
	t := &template{app: p.app(i / replicasPerApp)}
	t.name, t.hash = fmt.Sprintf("%s-%d", w.Word(), i), Hash(w.Rand, 6)
	t.labels = map[string]string{"run": t.name}
	t.fill(w)
	return t
}

// fill adds labels, annotations and a spec that differ from those of other templates.
func (t *template) fill(w *writer) {
	for _, key := range w.Several(1, 5, w.Word) {
		t.labels["example.com/"+key] = w.Word()
	}
	t.annotations = map[string]string{}
	keys := w.Several(1, 6, w.Name)
	for left := w.Between(minText, maxText); len(keys) > 0; keys = keys[1:] {
		n := left / len(keys)
		t.annotations[keys[0]+".example.com/"+w.Word()] = w.Text(n)
		left -= n
	}
	t.spec = w.podSpec(t)
}

func (w *writer) owner(name string, uid types.UID) metav1.OwnerReference {
	kind := Pick(&w.Words, "ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet")
	return metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// addToken adds the volume with the service account's token, and mounts it in every container, as
// the API server does.
func (t *template) addToken(spec *corev1.PodSpec, name string) {
	spec.Volumes = append(spec.Volumes, volumes(&t.app, name)[1])
	mount := mounts(name)[1]
	for i := range spec.Containers {
		spec.Containers[i].VolumeMounts = append(spec.Containers[i].VolumeMounts, mount)
	}
}

// imageIDs returns the digests of the images of n containers, all different.
func (t *template) imageIDs(n int) []string {
	out := make([]string, n)
	for i := range out {
		// The last two digits of the digest are the container's index.
		out[i] = fmt.Sprintf("%s%02x", t.imageID[:len(t.imageID)-2], i)
	}
	return out
}

// randomStream is the number of the stream of random numbers for the templates of NewRandom.
const randomStream uint64 = 7 << 60

// randomTemplate creates the template of pod i of NewRandom. All its names and text are random
// characters, except the values of its app.
func (p *Pods) randomTemplate(i int) *template {
	w := &writer{Words{Rand: p.random(randomStream, i), Noise: true}}
	t := &template{app: p.app(i)}
	t.labels = map[string]string{"app": t.name, w.Word(): w.Word()}
	t.fill(w)
	return t
}
