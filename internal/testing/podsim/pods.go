// Package podsim creates simulated pods for tests, demos and benchmarks. They are as large as the
// pods of a production cluster, have as many fields, and are the same on every machine.
//
// A set of 50,000 pods has 200 namespaces, 2,500 apps of 20 replicas and 5,000 nodes; sets of other
// sizes have the same proportions. A pod of New has about 4.95 KB as protobuf. All pods of New have
// the same fields, which makes some measured figures better than in a real cluster; measure those
// with NewUnlike or NewRandom too.
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

// Pods is a set of simulated pods. It does not store the pods: it creates each one on request. A
// Pods is safe for concurrent use.
type Pods struct {
	n    int
	seed uint64

	apps       int
	namespaces int
	nodes      int

	variety variety
	fields  fieldTemplates // for variety alike
}

// variety selects how much the pods of a set differ.
type variety uint8

const (
	alike  variety = iota // all pods have the same fields
	unlike                // each workload has its own fields
	random                // each pod has its own fields, and no text repeats
)

// New returns a set of n pods for a seed. The same n and seed give the same pods on every machine.
// A negative n counts as 0.
func New(n int, seed uint64) *Pods {
	p := newPods(alike, n, seed)
	if p.n > 0 {
		p.fields = newFieldTemplates(p.podWithoutFields(0))
	}
	return p
}

// NewUnlike returns a set like New, but of workloads that share neither fields nor text: each
// workload has a different number of containers, variables, arguments, volumes and annotations.
// Every fifth pod belongs to no workload and differs from all other pods; it has no label "app". A
// pod has about 8.3 KB as protobuf.
func NewUnlike(n int, seed uint64) *Pods { return newPods(unlike, n, seed) }

// NewRandom returns a set like New, but of pods that have nothing in common except the names of
// namespaces and nodes, and the constants of Kubernetes. Each pod is the only one of its app, and
// its text is random characters. A pod has about 8.3 KB as protobuf.
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

// Pod creates pod i, 0 ≤ i < Len. It panics for any other i. The caller owns the pod. The pod has
// no resourceVersion and, like an object from a typed client, no kind and no apiVersion. Names are
// unique within a namespace and uids within the set. Pods with neighboring i are replicas of one
// app, unless each pod of the set is the only one of its app.
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

// Apps returns the value of the label "app" of each app, in the order of the apps' pods.
func (p *Pods) Apps() []string {
	out := make([]string, p.apps)
	for i := range out {
		out[i] = appName(i)
	}
	return out
}

// FirstOf returns the index of the first pod of an app. app is the app's index in Apps.
func (p *Pods) FirstOf(app int) int { return app * replicasPerApp }

// Nodes returns the names of all nodes. Each runs some of the pods.
func (p *Pods) Nodes() []string {
	out := make([]string, p.nodes)
	for i := range out {
		out[i] = nodeName(i)
	}
	return out
}

// These are the streams of random numbers of apps and of pods. Each app and each pod has its own
// stream, so that a pod can be created without the others.
const (
	appStream uint64 = 1 << 62
	podStream uint64 = 1 << 63
)

func (p *Pods) random(stream uint64, i int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, stream|uint64(i)))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
