// Package apiserver is a small Kubernetes API server in one process: discovery, LIST, WATCH, GET,
// create, update, patch and delete for the built-in kinds and for any custom resource that it is
// told of, over real HTTP. It is there for tests, demos and benchmarks: it has no authentication,
// no admission, no defaulting and no controllers, and it forgets everything when it closes.
//
// What it does not do: server-side apply (415, so that clients fall back), validation beyond names
// and kinds, the scale subresource, graceful deletion of pods, deletion of what is in a namespace
// or owned by an object. The two kinds of events are two resources here.
//
// It can be seeded with simulated pods and change them at a steady rate, and a [Faults] makes it
// fail on purpose.
package apiserver
