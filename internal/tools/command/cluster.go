package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// dialTimeout limits how long a server may take to accept a connection. So if a server does not
	// exist, the command reports that within seconds.
	dialTimeout = 4 * time.Second
	// discoveryTimeout limits each request that looks up the RESOURCE of the command line.
	discoveryTimeout = 10 * time.Second
)

// ClusterFlags are kubectl's flags that select a cluster. They use client-go's package clientcmd.
// cli-runtime also has these flags, but it links kustomize and Go's plugin package. With
// cli-runtime, the weir program would have 115 MB, and 25 MB more of it would be resident. These 25
// MB are half of what an informer of 50,000 pods uses.
type ClusterFlags struct {
	Rules     *clientcmd.ClientConfigLoadingRules
	Overrides clientcmd.ConfigOverrides
	Flags     *pflag.FlagSet
}

func NewClusterFlags() *ClusterFlags {
	c := &ClusterFlags{Rules: clientcmd.NewDefaultClientConfigLoadingRules(), Flags: pflag.NewFlagSet("cluster", pflag.ContinueOnError)}
	c.Rules.WarnIfAllMissing = false
	c.Flags.StringVar(&c.Rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username = clientcmd.FlagInfo{} // kubectl has removed these flags
	names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&c.Overrides, c.Flags, names)
	// The help shows only the common flags of kubectl. Its other flags work too.
	shown := []string{"kubeconfig", "context", "cluster", "user", "namespace", "server", "token", "as", "as-group", "request-timeout"}
	c.Flags.VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(shown, f.Name) })
	return c
}

// Given returns the flags that the user has set, as arguments for another process.
func (c *ClusterFlags) Given() []string {
	var args []string
	c.Flags.VisitAll(func(f *pflag.Flag) {
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

// AboutCluster returns the first flag that the user has set and that an embedded server does not
// support. An embedded server supports only the flag for the namespace. AboutCluster returns "" if
// there is no such flag.
func (c *ClusterFlags) AboutCluster() (name string) {
	c.Flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "namespace" && name == "" {
			name = "--" + f.Name
		}
	})
	return name
}

// Chosen reports whether flags select a cluster.
func (c *ClusterFlags) Chosen() bool {
	return c.Rules.ExplicitPath != "" || c.Overrides.ClusterInfo.Server != "" || c.Overrides.CurrentContext != "" ||
		c.Overrides.Context.Cluster != ""
}

// Configured reports whether flags or a kubeconfig select a cluster, or this process runs in a pod.
func (c *ClusterFlags) Configured() (bool, error) {
	if c.Chosen() {
		return true, nil
	}
	raw, err := c.Rules.Load()
	if err != nil {
		return false, err
	}
	if len(raw.Clusters) > 0 {
		return true, nil
	}
	if paths := filepath.SplitList(os.Getenv("KUBECONFIG")); len(paths) > 0 {
		return false, fmt.Errorf("the kubeconfig of $KUBECONFIG (%s) is missing or contains no cluster", paths[0])
	}
	_, err = rest.InClusterConfig()
	return !errors.Is(err, rest.ErrNotInCluster), nil
}

// Loader returns a loader of the selected cluster's configuration.
func (c *ClusterFlags) Loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.Rules, &c.Overrides)
}

// RestConfig returns the configuration of the selected cluster, prepared by Prepared.
func (c *ClusterFlags) RestConfig() (*rest.Config, error) {
	raw, err := c.Rules.Load()
	if missing, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("the kubeconfig %s: %w", missing.Path, missing.Err)
	}
	if err != nil {
		return nil, err
	}
	if path := c.Rules.ExplicitPath; path != "" && c.Overrides.ClusterInfo.Server == "" && len(raw.Clusters) == 0 {
		return nil, fmt.Errorf("the kubeconfig %s contains no cluster", path)
	}
	cfg, err := c.Loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("the kubeconfig has no current context; choose one with --context")
	}
	if err != nil {
		return nil, err
	}
	return Prepared(cfg), nil
}

// Prepared changes cfg and returns it. It removes the limit on the request rate, which one informer
// never reaches, and sets the user agent.
func Prepared(cfg *rest.Config) *rest.Config {
	cfg.QPS = -1
	cfg.UserAgent = "weir/" + ReadVersion().Version
	return cfg
}

// Impatient returns a copy of cfg for requests that must end within seconds. It keeps a timeout and
// a dialer that cfg already has.
func Impatient(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = cmp.Or(cfg.Timeout, discoveryTimeout)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return cfg
}
