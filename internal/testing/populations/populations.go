// Package populations creates the objects of simulated clusters. Its populations differ in how much
// content the objects share, because most measured figures depend on that.
package populations

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// Population describes the objects of a simulated cluster. It creates each object on request, and
// does not store it. It is safe for concurrent use.
type Population struct {
	Pods  *podsim.Pods
	Kinds []Kind // all kinds; pods is the first
}

// Kind describes the objects of one resource.
type Kind struct {
	schema.GroupVersionResource
	Kind   string
	Len    int
	object func(i int) Object
}

// Object is a typed or unstructured API object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Object creates object i, for 0 ≤ i < Len. It panics for any other i. The caller owns the object.
// The object has no resourceVersion. A typed object also has no kind and no apiVersion. Names are
// unique among the objects of a kind in a namespace, and uids within the population.
func (k *Kind) Object(i int) Object {
	if i < 0 || i >= k.Len {
		panic(fmt.Sprintf("populations: %s %d of %d", k.Kind, i, k.Len))
	}
	return k.object(i)
}

// New returns the population with this name for a cluster of n pods. An empty name means
// [podsim.Alike]. The same name, n and seed give the same objects on every machine. For an unknown
// name, New returns an error that lists the names.
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
