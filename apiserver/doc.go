// Package apiserver is a small Kubernetes API server that runs inside a Go program, for tests,
// demos and benchmarks. Over HTTP, it serves discovery, LIST, WATCH, GET, create, update, patch and
// delete for the built-in kinds and for registered custom resources. It also serves the scale
// subresource, evictions, unsigned service account tokens, access reviews that allow everything,
// and schemas for kubectl explain. It offers kube-apiserver's metrics of requests and resources at
// /metrics, and an audit log ([Options].AuditLog). It has no authentication, defaulting or
// controllers, and loses all objects when it closes. It has one admission rule: the namespace of a
// new object must exist ([Options].AnyNamespace disables the rule).
//
// It does not implement server-side apply; it answers 415, so that clients fall back to other
// patches. It validates only names, kinds and CustomResourceDefinitions. It deletes pods without a
// grace period, and deletes neither the contents of a deleted namespace nor the dependents of a
// deleted owner. An eviction ignores PodDisruptionBudgets. The events of the core group and the
// events of events.k8s.io are separate resources.
//
// The server can create simulated pods in New, and change them at a constant rate. [Faults] make
// its responses fail on purpose.
package apiserver
