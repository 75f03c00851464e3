package metrics_test

import (
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirproject/weir/metrics"
)

// A page that Prometheus scrapes.
func ExampleNewCollector() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector())
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { log.Print(http.ListenAndServe("127.0.0.1:8080", nil)) }()
}
