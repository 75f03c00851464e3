// Package apiserver is a small Kubernetes API server in one process, for tests, demos and
// benchmarks. Over HTTP, it serves discovery, LIST, WATCH, GET, create, update, patch and delete
// for the built-in kinds and for registered custom resources. It also serves the scale subresource,
// evictions, unsigned tokens, reviews that allow everything, and schemas for kubectl explain. It
// has no authentication, defaulting or controllers, and loses all objects when it closes. It has
// one admission rule: the namespace of a new object must exist ([Options].AnyNamespace disables the
// rule).
//
// It does not implement server-side apply (it answers 415, so that clients fall back to other
// patches), validation beyond names and kinds, graceful deletion of pods, or deletion of a
// namespace's contents and of owned objects. An eviction ignores PodDisruptionBudgets. The events
// of the core group and those of events.k8s.io are separate resources.
//
// The server can create simulated pods at its start, and change them at a constant rate. [Faults]
// make it fail on purpose.
package apiserver
