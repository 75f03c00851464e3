package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/metrics"
)

// This example serves the metrics of an informer of 100 pods to Prometheus.
func ExampleNewCollector() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector())
	page := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer page.Close()

	server, err := apiserver.New(apiserver.Options{Pods: 100})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	pods, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := pods.Run(ctx); err != nil {
			log.Print(err)
		}
	})
	if err := pods.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}

	const want = `# HELP weir_informer_objects Stored objects.
# TYPE weir_informer_objects gauge
weir_informer_objects{group="",kind="Pod",name="pods",version="v1"} 100
`
	fmt.Println(testutil.ScrapeAndCompare(page.URL, strings.NewReader(want), "weir_informer_objects"))
	// Output: <nil>
}
