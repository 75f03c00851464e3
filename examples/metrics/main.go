// Command metrics runs an informer of pods, and serves its metrics for Prometheus and its debug
// page. It is an example of a program that operators can observe.
//
//	go run ./examples/metrics --listen 127.0.0.1:6060
//
// deploy/informers has a dashboard and alert rules for the metrics. The debug page shows the state
// of the program, so only this machine should reach it.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/metrics"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:6060", "the address of the pages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	listener, taken := net.Listen("tcp", *addr)
	if err = errors.Join(err, taken); err == nil {
		log.Printf("http://%s/metrics and http://%[1]s/debug/weir/", listener.Addr())
		err = run(ctx, cfg, listener)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves on a listener until ctx ends.
func run(ctx context.Context, cfg *rest.Config, listener net.Listener) (err error) {
	factory := weir.NewFactory(ctx, cfg)
	defer func() { err = errors.Join(err, factory.Shutdown()) }()
	if _, err := weir.Acquire[*corev1.Pod](factory, weir.Options{}); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector())
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
