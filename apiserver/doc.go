// Package apiserver is a small Kubernetes API server in one process. It serves discovery, LIST,
// WATCH, GET, create, update, patch and delete over HTTP, for the built-in kinds and for any
// registered custom resource, the scale subresource, eviction, unsigned tokens, reviews that allow
// everything, and schemas for kubectl explain. It is for tests, demos and benchmarks: it has no
// authentication, defaulting or controllers, and it forgets everything when it closes. It has one
// admission rule: a new object's namespace must exist ([Options].AnyNamespace turns it off).
//
// It does not implement server-side apply (415, so that clients fall back), validation beyond names
// and kinds, graceful deletion of pods, or deletion of a namespace's contents or of owned objects.
// An eviction ignores PodDisruptionBudgets. The two kinds of events are separate resources.
//
// It can be seeded with simulated pods, and change them at a constant rate. [Faults] make it fail
// on purpose.
package apiserver
