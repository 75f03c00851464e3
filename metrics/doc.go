// Package metrics shows the informers of a process to Prometheus: those of package weir, the
// drop-ins of package clientgo, and the informers under controller-runtime's caches.
//
//	prometheus.MustRegister(metrics.NewCollector())
//
// controller-runtime serves what is registered in its metrics.Registry.
//
// docs/informer-metrics.md lists the metrics. A series belongs to an informer or to one of its
// handlers, so their number does not grow with objects.
package metrics
