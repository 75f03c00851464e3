package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NewClientGoCollector returns a collector of two metrics, informer_store_resource_version and
// informer_queued_items. They have client-go's names and labels, so existing dashboards and alerts
// work. It covers the same informers as NewCollector. A program that imports k8s.io/component-base
// may already have registered client-go's metrics in a registry; MustRegister then panics. The
// collector has no state and no goroutine. It is safe for concurrent use.
func NewClientGoCollector() prometheus.Collector { return clientGoCollector{} }

type clientGoCollector struct{}

var (
	clientGoLabels   = []string{"name", "group", "version", "resource"}
	clientGoRVDesc   = prometheus.NewDesc("informer_store_resource_version", "The 15 least significant digits of the resourceVersion up to which the informer has received everything.", clientGoLabels, nil)
	clientGoItemDesc = prometheus.NewDesc("informer_queued_items", "The largest number of changes that one of the informer's handlers has not received yet.", clientGoLabels, nil)
)

// Describe implements prometheus.Collector.
func (clientGoCollector) Describe(to chan<- *prometheus.Desc) {
	to <- clientGoRVDesc
	to <- clientGoItemDesc
}

// Collect implements prometheus.Collector.
func (clientGoCollector) Collect(to chan<- prometheus.Metric) {
	eachInformer(to, func(i *informer) {
		i.labels[3] = i.resource
		if rv, ok := digits(i.engine.Store().ResourceVersion()); ok {
			i.gauge(clientGoRVDesc, rv)
		}
		lag := 0.0
		for _, r := range i.engine.Handlers() {
			lag = max(lag, float64(r.Stats().Lag))
		}
		i.gauge(clientGoItemDesc, lag)
	})
}

// guessResource derives the resource of objects from their kind: the server sends only the kind
// with an object. It uses the convention that nearly all kinds follow.
func guessResource(group, version, kind string) string {
	if kind == "" {
		return ""
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return plural.Resource
}
