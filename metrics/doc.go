// Package metrics exports the metrics of a process's informers to Prometheus: those of package
// weir, the drop-ins of package clientgo, and the informers under controller-runtime's caches.
//
//	prometheus.MustRegister(metrics.NewCollector())
//
// controller-runtime serves the collectors in its metrics.Registry.
//
// docs/informer-metrics.md lists the metrics. A series belongs to an informer or to one of its
// handlers, so the number of series does not grow with objects.
package metrics
