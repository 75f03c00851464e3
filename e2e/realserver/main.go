// Command realserver runs a real kube-apiserver and etcd on loopback until it is interrupted. It
// writes simulated pods to etcd. When the API server has all the pods, it prints the path of a
// kubeconfig on stdout. It prints everything else on stderr.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/populations"
)

const usage = `Runs a real kube-apiserver and etcd on loopback, filled with simulated pods, until interrupted.

  realserver [--pods N] [--population NAME] [--seed N] [--kubeconfig PATH] [--authorization-mode AlwaysAllow|RBAC] [--memory-limit SIZE]

`

type flags struct {
	pods          int
	population    string
	seed          uint64
	kubeconfig    string
	authorization string
	memoryLimit   string
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	f, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "realserver: %v (see --help)\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if startedByGoRun() {
		go cancelWithParent(ctx, cancel)
	}
	if err := serve(ctx, f, stdout, stderr); errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "realserver: stopped before the servers were ready")
		return 1
	} else if err != nil {
		fmt.Fprintf(stderr, "realserver: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("realserver", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.IntVar(&f.pods, "pods", 50_000, "how many pods to load")
	set.StringVar(&f.population, "population", podsim.Alike, "which objects to load: "+podsim.PopulationChoices())
	set.Uint64Var(&f.seed, "seed", 1, "which pods to load: the same seed gives the same pods")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "where to write the kubeconfig (a temporary directory)")
	set.StringVar(&f.authorization, "authorization-mode", string(cluster.AlwaysAllow), "AlwaysAllow or RBAC")
	set.StringVar(&f.memoryLimit, "memory-limit", "", "GOMEMLIMIT of kube-apiserver, such as 3GiB")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage)
			set.SetOutput(stderr)
			set.PrintDefaults()
		}
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if f.pods < 0 {
		return f, fmt.Errorf("--pods %d is negative", f.pods)
	}
	if err := podsim.CheckPopulation(f.population); err != nil {
		return f, fmt.Errorf("--population: %w", err)
	}
	if mode := cluster.Authorization(f.authorization); mode != cluster.AlwaysAllow && mode != cluster.RBAC {
		return f, fmt.Errorf("--authorization-mode %q is neither %s nor %s", f.authorization, cluster.AlwaysAllow, cluster.RBAC)
	}
	return f, nil
}

// serve runs the cluster until ctx ends. It returns nil if ctx ends after serve has printed the
// path of the kubeconfig. It returns an error if ctx ends earlier, or if a server exits.
func serve(ctx context.Context, f flags, stdout, stderr io.Writer) (err error) {
	start := time.Now()
	logf := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	objects, err := populations.New(f.population, f.pods, f.seed)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Authorization: cluster.Authorization(f.authorization),
		MemoryLimit:   f.memoryLimit,
		Pods:          objects.Pods,
		Kinds:         objects.Kinds[1:],
		Logf:          logf,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			logf("the logs are kept in %s", c.KeepLogs())
		}
		err = errors.Join(err, c.Stop())
	}()
	logf("kube-apiserver is ready at %s after %s", c.URL(), time.Since(start).Round(100*time.Millisecond))
	path := f.kubeconfig
	if path == "" {
		dir, err := os.MkdirTemp("", "weir-realserver-")
		if err != nil {
			return fmt.Errorf("making a directory for the kubeconfig: %w", err)
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "kubeconfig")
	} else if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("finding the kubeconfig: %w", err)
	}
	if err := c.WriteKubeconfig(path); err != nil {
		return err
	}
	logf("etcd is at %s", c.EtcdURL())
	logf("serving; interrupt to stop")
	if _, err := fmt.Fprintln(stdout, path); err != nil {
		return fmt.Errorf("printing the kubeconfig's path: %w", err)
	}
	return c.Wait(ctx)
}

// startedByGoRun reports whether "go run" started this program. The executable is then in a
// directory in which the go command builds or caches programs.
func startedByGoRun() bool {
	path, err := os.Executable()
	if err != nil {
		return false
	}
	cache := os.Getenv("GOCACHE")
	return strings.Contains(path, string(filepath.Separator)+"go-build") || cache != "" && strings.HasPrefix(path, cache)
}

// cancelWithParent calls cancel when the parent process has exited. "go run" exits when it receives
// a SIGTERM, and does not forward the signal.
func cancelWithParent(ctx context.Context, cancel func()) {
	parent := os.Getppid()
	// The only possible error says that ctx has ended.
	_ = wait.PollUntilContextCancel(ctx, 250*time.Millisecond, false, func(context.Context) (bool, error) {
		return os.Getppid() != parent, nil
	})
	cancel()
}
