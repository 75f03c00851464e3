// Command restarts prints a line whenever a container has restarted. It is an example of a program
// whose tests need no cluster: see main_test.go.
//
//	go run ./examples/restarts
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err == nil {
		err = run(ctx, cfg, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run prints restarts until ctx ends.
func run(ctx context.Context, cfg *rest.Config, out io.Writer) error {
	pods, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{OnStatus: func(s weir.Status) { log.Print(s) }})
	if err != nil {
		return err
	}
	_, err = pods.Handle(func(_ context.Context, e weir.Event[*corev1.Pod]) {
		now, err := e.Object()
		before := &corev1.Pod{}
		if err == nil && e.Type != weir.Added {
			before, err = e.Old()
		}
		if err != nil {
			log.Print(err)
		} else if restarts(now) > restarts(before) {
			fmt.Fprintf(out, "%s: %d restarts\n", e.Key(), restarts(now))
		}
	}, weir.HandlerOptions[*corev1.Pod]{})
	if err != nil {
		return err
	}
	return pods.Run(ctx)
}

func restarts(p *corev1.Pod) (n int32) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}
