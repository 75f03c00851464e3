// Package populations creates the objects of a simulated cluster, as one of several named
// populations: most figures depend on how much objects have in common.
package populations

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// Population is the objects of a cluster with a number of pods. It stores none of them: it creates
// each on request. It is safe for concurrent use.
type Population struct {
	Pods  *podsim.Pods
	Kinds []Kind // all kinds, that of the pods first
}

// Kind is the objects of one resource.
type Kind struct {
	schema.GroupVersionResource
	Kind   string
	Len    int
	object func(i int) Object
}

// Object is a pointer to a type of package api, or an unstructured object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Object creates object i, 0 ≤ i < Len; any other i panics. The caller owns it. It has no
// resourceVersion and, if it is not unstructured, no kind and no apiVersion. Names are unique
// within a kind's namespace and uids within the population.
func (k *Kind) Object(i int) Object {
	if i < 0 || i >= k.Len {
		panic(fmt.Sprintf("populations: %s %d of %d", k.Kind, i, k.Len))
	}
	return k.object(i)
}

// New returns the named population for a cluster of n pods; an empty name means [podsim.Alike]. The
// same name, n and seed give the same objects everywhere. For an unknown name, the error lists the
// choices.
func New(name string, n int, seed uint64) (*Population, error) {
	makers := map[string]func(int, uint64) *podsim.Pods{
		"": podsim.New, podsim.Alike: podsim.New,
		podsim.Unlike: podsim.NewUnlike, podsim.Mixed: podsim.NewUnlike, podsim.Random: podsim.NewRandom,
	}
	pods, ok := makers[name]
	if !ok {
		return nil, podsim.CheckPopulation(name)
	}
	p := &Population{Pods: pods(n, seed)}
	p.Kinds = []Kind{podsOf(p.Pods)}
	if name == podsim.Mixed {
		p.Kinds = mixedKinds(p.Pods, seed)
	}
	return p, nil
}

func podsOf(pods *podsim.Pods) Kind {
	return Kind{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		Kind:                 "Pod",
		Len:                  pods.Len(),
		object:               func(i int) Object { return pods.Pod(i) },
	}
}
