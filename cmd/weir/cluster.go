package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/cmd/weir/internal/bench"
)

const (
	// dialTimeout bounds how long a server may take to accept a connection, so that one that is not there is told in
	// seconds.
	dialTimeout = 4 * time.Second
	// discoveryTimeout bounds each request that finds out what RESOURCE is.
	discoveryTimeout = 10 * time.Second
	// demoChurn is how many pods of the embedded server change in a second when it is only there to show something.
	demoChurn = 5
)

// clusterFlags are kubectl's flags that choose a cluster. They come from client-go's clientcmd and not from cli-runtime,
// which links kustomize and Go's plugin package: the command would be 115 MB and 25 MB more of it resident, which is half
// of what a measured informer of 50,000 pods takes.
type clusterFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	flags     *pflag.FlagSet
}

func newClusterFlags() *clusterFlags {
	c := &clusterFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules(), flags: pflag.NewFlagSet("cluster", pflag.ContinueOnError)}
	c.rules.WarnIfAllMissing = false
	c.flags.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username = clientcmd.FlagInfo{} // kubectl has no such flags any more
	names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&c.overrides, c.flags, names)
	// Shown is what people reach for; the rest of kubectl's are there too, but do not fill the help.
	shown := map[string]bool{"kubeconfig": true, "context": true, "namespace": true, "server": true}
	c.flags.VisitAll(func(f *pflag.Flag) { f.Hidden = !shown[f.Name] })
	return c
}

// args are the flags as they were given, to be given to another process.
func (c *clusterFlags) args() []string {
	var args []string
	c.flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range many.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	return args
}

// chosen says whether flags name a cluster.
func (c *clusterFlags) chosen() bool {
	return c.rules.ExplicitPath != "" || c.overrides.ClusterInfo.Server != "" || c.overrides.CurrentContext != "" ||
		c.overrides.Context.Cluster != ""
}

// configured says whether a cluster has been chosen in any way: by flags, by a kubeconfig or by running in a pod.
func (c *clusterFlags) configured() (bool, error) {
	if c.chosen() {
		return true, nil
	}
	raw, err := c.rules.Load()
	if err != nil {
		return false, err
	}
	if len(raw.Clusters) > 0 {
		return true, nil
	}
	if paths := filepath.SplitList(os.Getenv("KUBECONFIG")); len(paths) > 0 {
		return false, fmt.Errorf("the kubeconfig that $KUBECONFIG names (%s) is missing or names no cluster", paths[0])
	}
	_, err = rest.InClusterConfig()
	return !errors.Is(err, rest.ErrNotInCluster), nil
}

// loader loads the chosen cluster's configuration.
func (c *clusterFlags) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
}

// restConfig is the configuration of the chosen cluster.
func (c *clusterFlags) restConfig() (*rest.Config, error) {
	raw, err := c.rules.Load()
	if err != nil {
		return nil, err
	}
	if path := c.rules.ExplicitPath; path != "" && c.overrides.ClusterInfo.Server == "" && len(raw.Clusters) == 0 {
		return nil, fmt.Errorf("the kubeconfig %s names no cluster", path)
	}
	cfg, err := c.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("the kubeconfig has no current context; choose one with --context")
	}
	if err != nil {
		return nil, err
	}
	return prepared(cfg), nil
}

// prepared is cfg without a limit on its request rate, which one informer never comes near.
func prepared(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	cfg.UserAgent = "weir/" + readVersion().Version
	return cfg
}

// impatient is a copy of cfg for requests that must come to something within seconds.
func impatient(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.Timeout == 0 {
		cfg.Timeout = discoveryTimeout
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return cfg
}

// cluster is a server to talk to.
type cluster struct {
	config    *rest.Config
	namespace string // the one that the kubeconfig or -n says
	embedded  bool
	pods      int // of the embedded server
	close     func() error
}

// open opens the chosen cluster. With embedded > 0 it starts an embedded server with so many pods and a steady churn
// instead, in a process of its own so that its memory is not ours.
func (c *clusterFlags) open(ctx context.Context, embedded int) (*cluster, error) {
	if embedded > 0 {
		server, err := bench.StartServer(ctx, bench.ServerSpec{Pods: embedded, Churn: demoChurn, Seed: 1})
		if err != nil {
			return nil, fmt.Errorf("start the embedded server: %w", err)
		}
		return &cluster{
			config: prepared(server.Config()), namespace: c.overrides.Context.Namespace, embedded: true, pods: embedded, close: server.Close,
		}, nil
	}
	cfg, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := c.loader().Namespace()
	if err != nil {
		return nil, err
	}
	return &cluster{config: cfg, namespace: namespace, close: func() error { return nil }}, nil
}
