// Package evidence reads what package doctor judges: kube-apiserver's audit logs and its metrics.
//
// An audit log has lines of JSON, each an Event of audit.k8s.io/v1. The package reads the few
// fields that say who asked for what, when, and how long that took, in one pass and without an
// allocation for each line. [Merge] reads several logs in the order of time. [CompareMetrics]
// compares two readings of /metrics.
package evidence
