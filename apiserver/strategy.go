package apiserver

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// strategy contains the rules by which the server writes the objects of a kind, like the kind's
// strategy in kube-apiserver.
type strategy struct {
	// custom is true for custom resources.
	custom bool
	// generation is the generation of new objects. 0 means that a new object keeps the generation in
	// the request.
	generation int64
	// increments is true if a change increments the generation. Changes of metadata, and of a status
	// that has a subresource, do not increment it.
	increments bool
	// conditional is true if an update must state a resourceVersion.
	conditional bool
	// putCreates is true if a PUT creates a missing object.
	putCreates bool
}

var (
	customStrategy     = strategy{custom: true, generation: 1, increments: true, conditional: true}
	definitionStrategy = strategy{generation: 1, increments: true, conditional: true}
)

// setGeneration sets the generation of o, which is an update of old.
func (s strategy) setGeneration(o, old object) {
	o.SetGeneration(old.GetGeneration())
	if s.increments && generationChanged(o, old) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// generationChanged reports whether an update changes any field whose changes increment the
// generation.
func generationChanged(o, old object) bool {
	if specChanged(o, old) {
		return true
	}
	switch o.(type) {
	case *appsv1.Deployment: // a controller copies its annotations to ReplicaSets
		return !maps.Equal(o.GetAnnotations(), old.GetAnnotations())
	case *discoveryv1.EndpointSlice:
		return !maps.Equal(o.GetLabels(), old.GetLabels())
	}
	return false
}
