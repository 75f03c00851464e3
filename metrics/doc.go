// Package metrics exports metrics of a process's informers to Prometheus. It covers the informers
// of package weir, the drop-ins of package clientgo, and the informers under controller-runtime's
// caches.
//
//	prometheus.MustRegister(metrics.NewCollector())
//
// To export these metrics together with controller-runtime's metrics, register the collector in
// controller-runtime's metrics.Registry.
//
// docs/reference/informer-metrics.md lists the metrics. Each series belongs to an informer or to
// one of its handlers, so the number of series does not depend on the number of objects.
package metrics
