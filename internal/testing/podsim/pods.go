// Package podsim creates simulated pods for tests, demos and benchmarks. They have the size and the
// number of fields of pods in a production cluster, and are the same on every machine.
//
// A set of 50,000 pods has 200 namespaces, 2,500 apps of 20 replicas and 5,000 nodes; sets of other
// sizes have the same proportions. A pod of New has about 4.95 KB as protobuf. All pods of New have
// the same fields, so some figures that are measured with them are better than in a real cluster.
// Measure with NewUnlike or NewRandom too.
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

// Pods is a set of simulated pods. It creates each pod when Pod is called, and does not store it. A
// Pods is safe for concurrent use.
type Pods struct {
	n    int
	seed uint64

	apps       int
	namespaces int
	nodes      int

	variety variety
	fields  fieldTemplates // only for the variety alike
}

// variety says how much the pods of a set differ.
type variety uint8

const (
	alike  variety = iota // all pods have the same fields
	unlike                // each workload has its own fields
	random                // each pod has its own fields, and no text is repeated
)

// New returns a set of n pods for a seed. The same n and seed give the same pods on every machine.
// A negative n is treated as 0.
func New(n int, seed uint64) *Pods {
	p := newPods(alike, n, seed)
	if p.n > 0 {
		p.fields = newFieldTemplates(p.podWithoutFields(0))
	}
	return p
}

// NewUnlike returns a set like that of New, but its workloads differ in their text and in which
// fields are set: they have different numbers of containers, variables, arguments, volumes and
// annotations. Every fifth pod belongs to no workload, has no label "app", and differs from all
// other pods. A pod has about 8.3 KB as protobuf.
func NewUnlike(n int, seed uint64) *Pods { return newPods(unlike, n, seed) }

// NewRandom returns a set like that of New, but its pods share only the names of namespaces and
// nodes, and the constants of Kubernetes. Each pod is the only one of its app, and its text is
// random characters. A pod has about 8.3 KB as protobuf.
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

// Pod creates pod i, for 0 ≤ i < Len. It panics for any other i. The caller owns the pod. Like an
// object of a typed client, the pod has no kind and no apiVersion. It also has no resourceVersion.
// Names are unique within a namespace, and uids within the set. The pods 0 to 19, 20 to 39 and so
// on are the replicas of one app. In a set of NewUnlike, every fifth pod belongs to no app, and in
// a set of NewRandom, each app has one pod.
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

// Apps returns the value of the label "app" for each app. Apps whose pods have lower indexes come
// first.
func (p *Pods) Apps() []string {
	out := make([]string, p.apps)
	for i := range out {
		out[i] = appName(i)
	}
	return out
}

// FirstOf returns the index of the first pod of an app. app is an index in Apps. FirstOf is not for
// sets of NewRandom.
func (p *Pods) FirstOf(app int) int { return app * replicasPerApp }

// Nodes returns the names of all nodes. Each node runs some of the pods.
func (p *Pods) Nodes() []string {
	out := make([]string, p.nodes)
	for i := range out {
		out[i] = nodeName(i)
	}
	return out
}

// Numbers of the streams of random numbers for apps and pods. Each app and each pod has its own
// stream, so that a pod can be created without the other pods.
const (
	appStream uint64 = 1 << 62
	podStream uint64 = 1 << 63
)

func (p *Pods) random(stream uint64, i int) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, stream|uint64(i)))
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
