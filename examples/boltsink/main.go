// Command boltsink stores the objects of one resource in a bbolt database and keeps the database
// current. After a restart it resumes at the stored resourceVersion and does not list the objects
// again. It is an example of weir.Mirror and weir.Sink.
//
//	go run ./examples/boltsink --db pods.db pods
//	go run ./examples/boltsink --db deployments.db deployments.v1.apps
//	go run ./examples/boltsink --db pods.db            # prints the stored objects
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "boltsink:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("boltsink", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: boltsink --db FILE [RESOURCE], such as pods or deployments.v1.apps; without a RESOURCE it prints the contents of FILE")
		flags.PrintDefaults()
	}
	path := flags.String("db", "", "the database; created if it does not exist")
	kubeconfig := flags.String("kubeconfig", "", "selects the cluster (default: like kubectl)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *path == "" || flags.NArg() > 1:
		flags.Usage()
		return fmt.Errorf("want --db and at most one resource, not %q", flags.Args())
	case flags.NArg() == 0:
		return show(*path, stdout)
	}
	return follow(ctx, *path, *kubeconfig, flags.Arg(0), stderr)
}

// follow mirrors a resource to a database until ctx ends, and prints each weir.Status of the
// mirror.
func follow(ctx context.Context, path, kubeconfig, resource string, stderr io.Writer) (err error) {
	gvr, gr := schema.ParseResourceArg(resource)
	if gvr == nil {
		core := gr.WithVersion("v1") // pods
		gvr = &core
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return err
	}
	sink, err := openBoltSink(path, fmt.Sprintf("%s of %s", gvr.GroupResource(), cfg.Host))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	opts := weir.Options{Resource: *gvr, DropFields: []string{"metadata.managedFields"}, OnStatus: func(s weir.Status) { fmt.Fprintln(stderr, s) }}
	return weir.Mirror[*unstructured.Unstructured](ctx, cfg, opts, sink)
}

// show prints the name and resourceVersion of each object in a database.
func show(path string, stdout io.Writer) error {
	return each(path, func(key string, raw []byte) error {
		object, err := weir.Decode[*unstructured.Unstructured](raw)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		_, err = fmt.Fprintln(stdout, key, object.GetResourceVersion())
		return err
	})
}
