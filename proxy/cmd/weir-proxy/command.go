package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/proxy"
)

type flags struct {
	options            proxy.Options
	rules              *clientcmd.ClientConfigLoadingRules
	overrides          clientcmd.ConfigOverrides
	budget             string
	log                string
	watches, responses string
	consistency        string
	kubeconfig         string // file to write
	debugAddr          string
	verbose            bool
	check              bool
}

func newCommand() *cobra.Command {
	f := &flags{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	cmd := &cobra.Command{
		Use:   "weir-proxy",
		Short: "Run a caching proxy in front of kube-apiserver",
		Long: "The proxy caches resources, each with one LIST and one WATCH of the upstream, and answers the reads of all clients from\n" +
			"them, with each caller's own permissions. It forwards all other requests as the caller. It prints its address on stdout.",
		Example: "  weir proxy --resources pods,nodes,deployments.apps --write-kubeconfig proxy.kubeconfig\n" +
			"  weir proxy --resources pods --consistency cached --memory-budget 512Mi --listen :8443 --cert-dir /var/run/weir",
		Args:              command.NoArgs[*cobra.Command],
		RunE:              func(cmd *cobra.Command, _ []string) error { return explain(f.run(cmd)) },
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "weir proxy"},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.FlagError(cmd.CommandPath(), err) })
	f.add(cmd.Flags())
	return cmd
}

// add defines the flags. If kube-apiserver or extension API servers have the same flag, it has the
// same name here.
func (f *flags) add(fs *pflag.FlagSet) {
	f.addConnections(fs)
	f.addReads(fs)
	f.addLimits(fs)
	f.addCallers(fs)
	f.addOperation(fs)
	command.AddLogFormat(fs)
}

// addConnections defines the flags about the upstream and about connections of clients.
func (f *flags) addConnections(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "Kubeconfig of the upstream; empty: kubectl's, or the ServiceAccount in a pod")
	fs.StringVar(&f.overrides.CurrentContext, "context", "", "The context of the kubeconfig to use")
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:0", "Address to listen on; port 0 selects a free port")
	fs.StringVar(&o.HealthListen, "health-listen", "", "Additional address, such as :8081, that answers only /livez, /readyz and /healthz, in plain HTTP; empty: none")
	fs.StringVar(&o.CertFile, "tls-cert-file", "", "Serving certificate; empty: the proxy creates a self-signed one")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", "", "Key of the serving certificate")
	fs.StringVar(&o.CertDir, "cert-dir", "", "Directory in which the self-signed certificate is stored; empty: in memory only")
	fs.StringSliceVar(&o.Hosts, "cert-hosts", nil, "Additional names and addresses in the self-signed certificate")
	fs.StringVar(&f.kubeconfig, "write-kubeconfig", "", "Write a kubeconfig for the proxy, with the upstream kubeconfig's user, to this file")
}

// addReads defines the flags about which resources are cached and how they are read.
func (f *flags) addReads(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringSliceVar(&o.Resources, "resources", nil, "Resources to cache from the start: pods, deployments.apps, widgets.v1.example.com")
	fs.StringVar(&f.budget, "memory-budget", "0", "Limit of the memory of other resources, which are cached on demand; 0: none are cached")
	fs.StringVar(&f.consistency, "consistency", "proven",
		"Answers to consistent reads, which are LISTs and WATCHes without resourceVersion. proven: from the cache, after a proof that it "+
			"is current; upstream: from the upstream; cached: from the cache without a proof, for --resources; cached:pods,nodes: the same for these")
	fs.DurationVar(&o.MaxStaleness, "max-staleness", 0,
		"The cache answers a read without a proof only if the upstream has confirmed its state within this time; 0: no limit")
	fs.StringVar(&f.log, "log-bytes", "8Mi", "Size of each resource's change log, from which watches resume")
	fs.DurationVar(&o.FlushInterval, "watch-flush-interval", 0,
		"Longest time between two writes to a watcher while changes are frequent. The time grows with the number of watchers that receive changes; "+
			"0: 25ms; negative: each change is written immediately")
	fs.BoolVar(&o.ExpireSlowWatches, "expire-late-watches", false,
		"End a watch with 410 Expired if it falls behind the change log (with a selector or a namespace: if more than 64 changes wait for it), or if a relist found changes; by default, such a watch receives the newest state of each changed object")
}

// addLimits defines the flags that bound the resources that clients use.
func (f *flags) addLimits(fs *pflag.FlagSet) {
	o := &f.options
	fs.IntVar(&o.MaxConnections, "max-connections", 0, "Maximum number of open connections; 0: 10000")
	fs.IntVar(&o.MaxConnectionsPerSource, "max-connections-per-source", 0,
		"Maximum number of open connections of one address, for clients that connect directly and not through a load balancer or NAT; 0: no limit")
	fs.IntVar(&o.MaxRequests, "max-requests-inflight", 0, "Maximum number of reads in progress, without watches; 0: 1000")
	fs.IntVar(&o.MaxMutating, "max-mutating-requests-inflight", 0, "Maximum number of other requests in progress; 0: 200")
	fs.IntVar(&o.MaxLongRunning, "max-longrunning-requests", 0, "Maximum number of watches, logs and upgraded connections; 0: 100000")
	fs.IntVar(&o.MaxWatchesPerUser, "max-watches-per-user", 0, "Maximum number of watches, logs and upgraded connections of one user; 0: half of --max-longrunning-requests")
	fs.StringVar(&f.watches, "watch-memory", "2Gi", "Limit of the memory of all watches, including their connections; 0: no limit")
	fs.StringVar(&f.responses, "response-memory", "256Mi", "Limit of the memory of responses that clients have not read yet, without watches; one user can use half; 0: no limit")
}

// addCallers defines the flags about authentication and authorization of callers.
func (f *flags) addCallers(fs *pflag.FlagSet) {
	o, a := &f.options, &f.options.Authentication
	fs.StringVar(&a.ClientCAFile, "client-ca-file", "", "CA of client certificates, instead of the CA that the upstream publishes")
	fs.StringVar(&a.RequestHeaderCAFile, "requestheader-client-ca-file", "", "CA of front proxies, instead of the CA that the upstream publishes")
	fs.StringSliceVar(&a.RequestHeaderNames, "requestheader-allowed-names", nil, "Common names that front proxies may have; empty: any")
	fs.StringSliceVar(&a.UserHeaders, "requestheader-username-headers", []string{"X-Remote-User"}, "Headers with the user's name")
	fs.StringSliceVar(&a.UIDHeaders, "requestheader-uid-headers", []string{"X-Remote-Uid"}, "Headers with the user's uid")
	fs.StringSliceVar(&a.GroupHeaders, "requestheader-group-headers", []string{"X-Remote-Group"}, "Headers with the user's groups")
	fs.StringSliceVar(&a.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"X-Remote-Extra-"}, "Prefixes of headers with the user's extras")
	fs.BoolVar(&a.SkipLookup, "authentication-skip-lookup", false, "Do not trust the CAs that the upstream publishes")
	fs.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", 0, "How long the proxy reuses a review of a token; 0: 10s")
	fs.DurationVar(&a.AllowTTL, "authorization-webhook-cache-authorized-ttl", 0, "How long the proxy reuses a permission; 0: 10s")
	fs.DurationVar(&a.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", 0, "How long the proxy reuses a denial; 0: 10s")
	fs.DurationVar(&o.Recheck, "recheck", 0, "Interval at which the proxy reviews the caller of each watch again. It is longer if this needed more than 20 reviews per second; 0: 1m")
	fs.DurationVar(&o.RecheckMax, "recheck-max", 0, "Longest interval between two reviews of the caller of a watch, even if this needs more reviews per second; 0: 1h")
	fs.DurationVar(&o.OutageGrace, "grace", 0, "How long the last reviews of a caller remain valid for reads and watches while the proxy cannot reach the upstream; 0: 1h, negative: no time")
}

// addOperation defines the flags about audit, logs, the debug page and the shutdown.
func (f *flags) addOperation(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringVar(&o.Audit.PolicyFile, "audit-policy-file", "", "Policy of audit.k8s.io/v1, like kube-apiserver's: which of the requests that the proxy answers or refuses are recorded")
	fs.StringVar(&o.Audit.LogPath, "audit-log-path", "", "File to which audit events are written; - is standard output")
	fs.IntVar(&o.Audit.MaxSize, "audit-log-maxsize", 0, "Size in megabytes at which the audit log is rotated; 0: 100")
	fs.IntVar(&o.Audit.MaxBackups, "audit-log-maxbackup", 0, "Number of rotated audit logs to keep; 0: all")
	fs.IntVar(&o.Audit.MaxAge, "audit-log-maxage", 0, "Number of days to keep rotated audit logs; 0: without limit")
	fs.StringVar(&o.Audit.WebhookConfigFile, "audit-webhook-config-file", "", "Kubeconfig of a webhook to send audit events to")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay", 10*time.Second,
		"How long the proxy continues to serve after SIGTERM: it is not ready, and its watches end one by one. An interrupt does not wait, and a second signal ends the proxy immediately")
	fs.Float64Var(&o.GoawayChance, "goaway-chance", 0,
		"Probability, from 0 to 0.02, that a response tells an HTTP/2 client to open a new connection, so that replicas share the load; 0.001 is a good value")
	fs.StringVar(&f.debugAddr, "debug-addr", "",
		"Serve a page that shows the proxy's caches and clients, and profiles, at this address; :8080 is on loopback only. The page requires no credentials, and "+
			"shows users and changes of objects, except the values of Secrets and environment variables")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "Log more details")
	fs.BoolVar(&f.check, "check-arguments", false, "Check the arguments and end, without an upstream")
	// Hidden: weir proxy runs the command with this flag first, before it starts an upstream.
	fs.Lookup("check-arguments").Hidden = true
}

// complete parses the flags' values into the options, and validates the options as far as that is
// possible without an upstream.
func (f *flags) complete() error {
	for _, size := range []struct {
		name, text string
		to         *int64
	}{{"memory-budget", f.budget, &f.options.MemoryBudget}, {"log-bytes", f.log, &f.options.LogBytes}, {"watch-memory", f.watches, &f.options.WatchMemory}, {"response-memory", f.responses, &f.options.ResponseMemory}} {
		q, err := resource.ParseQuantity(size.text)
		if err != nil || q.Sign() < 0 {
			return command.Usagef("--%s %q: want a size such as 512Mi", size.name, size.text)
		}
		*size.to = q.Value()
	}
	// In options, 0 means the default, and -1 means no bound.
	f.options.WatchMemory = cmp.Or(f.options.WatchMemory, -1)
	f.options.ResponseMemory = cmp.Or(f.options.ResponseMemory, -1)
	if _, err := command.DebugAddress(f.debugAddr); err != nil {
		return command.Usagef("--debug-addr %s: %w", f.debugAddr, err)
	}
	mode, names, some := strings.Cut(f.consistency, ":")
	switch {
	case mode == "proven" && !some:
	case mode == "upstream" && !some:
		f.options.ForwardConsistent = true
	case mode == "cached" && !some:
		f.options.TrustCache = f.options.Resources
	case mode == "cached" && names != "":
		f.options.TrustCache = strings.Split(names, ",")
	default:
		return command.Usagef("--consistency %q: want proven, upstream, cached, or cached:RESOURCES", f.consistency)
	}
	return f.options.Validate()
}

var errNoUpstream = errors.New("no upstream: no kubeconfig found; name one with --kubeconfig or KUBECONFIG")

func (f *flags) run(cmd *cobra.Command) error {
	if len(f.options.Resources) == 0 && cmd.Flags().Changed("resources") {
		return command.Usagef("--resources \"\": want a list of resources, such as pods,nodes")
	}
	if err := f.complete(); err != nil || f.check {
		return err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides)
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return errNoUpstream
	}
	if err != nil {
		return fmt.Errorf("the upstream's kubeconfig: %w", err)
	}
	rest.AddUserAgent(cfg, "weir-proxy")
	f.options.Upstream, f.options.Log = cfg, newLog(f.verbose)
	server, err := proxy.New(cmd.Context(), f.options)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return errors.Join(err, server.Close())
	}
	stop, err := f.serveDebug(cmd)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	defer stop()
	if f.kubeconfig != "" {
		raw, err := loader.RawConfig()
		if f.overrides.CurrentContext != "" {
			raw.CurrentContext = f.overrides.CurrentContext
		}
		if err == nil {
			err = server.WriteKubeconfig(&raw, f.kubeconfig)
		}
		if err != nil {
			return errors.Join(err, server.Close())
		}
	}
	fmt.Fprintln(cmd.OutOrStdout(), server.URL())
	<-cmd.Context().Done()
	delay := f.options.ShutdownDelay
	// A user at a terminal sent the interrupt, so no load balancer needs the delay.
	if errors.Is(context.Cause(cmd.Context()), command.ErrInterrupted) {
		delay = 0
	}
	return server.Shutdown(context.WithoutCancel(cmd.Context()), delay)
}

// serveDebug serves the page of package debug at the address of --debug-addr, and prints the page's
// URL to stderr. It serves until the caller calls stop.
func (f *flags) serveDebug(cmd *cobra.Command) (stop func(), err error) {
	address, err := command.DebugAddress(f.debugAddr)
	if address == "" || err != nil {
		return func() {}, err
	}
	url, stop, err := command.ServeDebugPage(cmd.Context(), address)
	if err != nil {
		return nil, fmt.Errorf("--debug-addr %s: %w", f.debugAddr, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "a page that shows the proxy: %s\n", url)
	return stop, nil
}
