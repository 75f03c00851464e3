// Package apiserver is a small Kubernetes API server in one process. It serves discovery, LIST,
// WATCH, GET, create, update, patch and delete over HTTP, for the built-in kinds and for any custom
// resource that is registered, the scale subresource, eviction, unsigned tokens, reviews that allow
// everything, and schemas for kubectl explain. It is for tests, demos and benchmarks: it has no
// authentication, defaulting or controllers, and it forgets everything when it closes. Of admission
// it has one rule: a new object's namespace must exist ([Options].AnyNamespace turns it off).
//
// It does not do server-side apply (415, so that clients fall back), validation beyond names and
// kinds, graceful deletion of pods, or deletion of what is in a namespace or owned by an object. An
// eviction heeds no PodDisruptionBudget. The two kinds of events are separate resources.
//
// It can be seeded with simulated pods, and change them at a steady rate. A [Faults] makes it fail
// on purpose.
package apiserver
