// Package apiserver is a small Kubernetes API server in one process. It serves discovery, LIST,
// WATCH, GET, create, update, patch and delete over HTTP, for the built-in kinds and for any custom
// resource that is registered. It is for tests, demos and benchmarks: it has no authentication,
// admission, defaulting or controllers, and it forgets everything when it closes.
//
// It does not do server-side apply (415, so that clients fall back), validation beyond names and
// kinds, the scale subresource, graceful deletion of pods, or deletion of what is in a namespace or
// owned by an object. The two kinds of events are separate resources.
//
// It can be seeded with simulated pods, and change them at a steady rate. A [Faults] makes it fail
// on purpose.
package apiserver
