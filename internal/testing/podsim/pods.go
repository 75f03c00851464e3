// Package podsim creates simulated pods for tests, demos and benchmarks: as large and as full as
// the pods of a production cluster, and the same ones on every machine.
//
// At 50,000 pods there are 200 namespaces, 2,500 apps of 20 replicas and 5,000 nodes; other sizes
// keep these proportions. A pod has about 4.95 KB as protobuf. All pods of New have the same
// fields, which makes some figures too good; NewUnlike and NewRandom correct that.
package podsim

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
)

const (
	replicasPerApp   = 20
	podsPerNamespace = 250
	podsPerNode      = 10
)

// Pods is a set of simulated pods. It stores no pod: it creates each on request. A Pods is safe for
// concurrent use.
type Pods struct {
	n    int
	seed uint64

	apps       int
	namespaces int
	nodes      int

	variety variety
	fields  fieldTemplates // of similar pods
}

// variety is how the pods of a set differ.
type variety uint8

const (
	alike  variety = iota // all have the same fields
	unlike                // each workload has its own
	random                // each pod has its own, and no text repeats
)

// New returns the set of n pods that belongs to seed. The same n and seed give the same pods
// everywhere; a negative n counts as 0.
func New(n int, seed uint64) *Pods {
	p := newPods(alike, n, seed)
	if p.n > 0 {
		p.fields = newFieldTemplates(p.podWithoutFields(0))
	}
	return p
}

// NewUnlike returns n pods like New, of workloads that share neither shape nor text: each has its
// own number of containers, variables, arguments, volumes and annotations. Every fifth pod belongs
// to no workload and differs from all others; it has no label "app". A pod has about 8.3 KB as
// protobuf.
func NewUnlike(n int, seed uint64) *Pods { return newPods(unlike, n, seed) }

// NewRandom returns n pods like New that have nothing in common except the names of namespaces and
// nodes and Kubernetes' own words: each is the only one of its app, and its text is noise. A pod
// has about 8.3 KB as protobuf.
func NewRandom(n int, seed uint64) *Pods {
	p := newPods(random, n, seed)
	p.apps = p.n
	return p
}

func newPods(v variety, n int, seed uint64) *Pods {
	n = max(n, 0)
	return &Pods{
		n:          n,
		seed:       seed,
		variety:    v,
		apps:       ceilDiv(n, replicasPerApp),
		namespaces: ceilDiv(n, podsPerNamespace),
		nodes:      ceilDiv(n, podsPerNode),
	}
}

// Len returns the number of pods.
func (p *Pods) Len() int { return p.n }

// Pod creates pod i, 0 ≤ i < Len; any other i panics. The caller owns the pod. It has no
// resourceVersion and, like an object from a typed client, no kind and no apiVersion. Names are
// unique within a namespace and uids within the set. Neighbours in i are replicas of one app,
// unless the set's pods have none.
func (p *Pods) Pod(i int) *corev1.Pod {
	if i < 0 || i >= p.n {
		panic(fmt.Sprintf("podsim: pod %d of %d", i, p.n))
	}
	switch p.variety {
	case unlike:
		pod := p.unlikeWithoutFields(i)
		pod.ManagedFields = ownEntries(pod)
		return pod
	case random:
		pod := p.unlikeWithoutFields(i)
		pod.ManagedFields = noiseEntries(pod)
		return pod
	}
	pod := p.podWithoutFields(i)
	pod.ManagedFields = p.fields.entries(pod)
	return pod
}

// Namespaces returns the names of all namespaces that have pods, sorted.
func (p *Pods) Namespaces() []string {
	out := make([]string, p.namespaces)
	for i := range out {
		out[i] = namespaceName(i)
	}
	return out
}

// Apps returns the values of the label "app", one for each app, in the order of its pods.
func (p *Pods) Apps() []string {
	out := make([]string, p.apps)
	for i := range out {
		out[i] = appName(i)
	}
	return out
}

// FirstOf returns the position of the first pod of an app, given the app's position in Apps.
func (p *Pods) FirstOf(app int) int { return app * replicasPerApp }

// Nodes returns the names of all nodes. Each runs some of the pods.
func (p *Pods) Nodes() []string {
	out := make([]string, p.nodes)
	for i := range out {
		out[i] = nodeName(i)
	}
	return out
}

// Streams of random numbers: one for each app and one for each pod, so that a pod can be created
// alone.
const (
	appStream uint64 = 1 << 62
	podStream uint64 = 1 << 63
)

func (p *Pods) random(stream uint64, i int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, stream|uint64(i)))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
