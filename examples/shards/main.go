// Command shards prints the changes of the pods in one of several equal parts of a cluster. It is
// an example of a program whose replicas divide the objects: each stores only its part.
//
//	go run ./examples/shards --shard 0 --of 2 & go run ./examples/shards --shard 1 --of 2
//
// In a StatefulSet, the label apps.kubernetes.io/pod-index has the number of the replica.
package main

import (
	"context"
	"flag"
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
	var shard weir.Shard
	flag.IntVar(&shard.Index, "shard", 0, "the number of the part, from 0")
	flag.IntVar(&shard.Count, "of", 1, "how many parts there are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err == nil {
		err = run(ctx, cfg, shard, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run prints the changes of a shard until ctx ends.
func run(ctx context.Context, cfg *rest.Config, shard weir.Shard, out io.Writer) error {
	pods, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{
		Shard:    shard,
		OnStatus: func(s weir.Status) { log.Print(s) },
	})
	if err != nil {
		return err
	}
	// One call at a time, so out needs no lock.
	if _, err := pods.Handle(func(_ context.Context, e weir.Event[*corev1.Pod]) { fmt.Fprintln(out, e.Type, e.Key()) }, weir.HandlerOptions[*corev1.Pod]{}); err != nil {
		return err
	}
	return pods.Run(ctx)
}
