// Package populations makes the objects of a simulated cluster, as one of several populations that
// are known by their names: how much objects have in common decides what most figures are.
package populations

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/podsim"
	"github.com/weirproject/weir/internal/populations/names"
)

// Population is the objects of a cluster with a number of pods. It holds none of them: each is made
// when it is asked for. It is safe for concurrent use.
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

// Object makes object i, 0 ≤ i < Len; any other i panics. It is the caller's own. It has no
// resourceVersion and, if it is not unstructured, no kind and no apiVersion. Names are unique
// within a kind's namespace and uids within the population.
func (k *Kind) Object(i int) Object {
	if i < 0 || i >= k.Len {
		panic(fmt.Sprintf("populations: %s %d of %d", k.Kind, i, k.Len))
	}
	return k.object(i)
}

// New returns the population of a name for a cluster of n pods; an empty name is [names.Alike]. The
// same name, n and seed give the same objects everywhere. An unknown name is an error that has the
// choices.
func New(name string, n int, seed uint64) (*Population, error) {
	makers := map[string]func(int, uint64) *podsim.Pods{
		"": podsim.New, names.Alike: podsim.New,
		names.Unlike: podsim.NewUnlike, names.Mixed: podsim.NewUnlike, names.Random: podsim.NewRandom,
	}
	pods, ok := makers[name]
	if !ok {
		return nil, names.Check(name)
	}
	p := &Population{Pods: pods(n, seed)}
	p.Kinds = []Kind{podsOf(p.Pods)}
	if name == names.Mixed {
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
