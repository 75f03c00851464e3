package main

import (
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
		Long: "The proxy caches resources, each by one LIST and one WATCH upstream, and answers everybody's reads out of them, with the\n" +
			"caller's own permissions. Everything else goes upstream in the caller's name. Its address is printed on stdout.",
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

// add defines the flags. A flag that kube-apiserver or extension API servers also have has the same
// name as theirs.
func (f *flags) add(fs *pflag.FlagSet) {
	f.addConnections(fs)
	f.addReads(fs)
	f.addLimits(fs)
	f.addCallers(fs)
	f.addOperation(fs)
}

// addConnections defines the flags about the upstream and about connections of clients.
func (f *flags) addConnections(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "Kubeconfig of the upstream; empty: the one that kubectl uses, or in a pod the ServiceAccount")
	fs.StringVar(&f.overrides.CurrentContext, "context", "", "The context of the kubeconfig to use")
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:0", "Address to listen on; port 0 is a free one")
	fs.StringVar(&o.HealthListen, "health-listen", "", "Another address, such as :8081, that answers /livez, /readyz and /healthz in plain HTTP, and nothing else; empty: none")
	fs.StringVar(&o.CertFile, "tls-cert-file", "", "Serving certificate; empty: the proxy makes a self-signed one")
	fs.StringVar(&o.KeyFile, "tls-private-key-file", "", "Key of the serving certificate")
	fs.StringVar(&o.CertDir, "cert-dir", "", "Directory that keeps the self-signed certificate; empty: it is in memory")
	fs.StringSliceVar(&o.Hosts, "cert-hosts", nil, "More names and addresses of the self-signed certificate")
	fs.StringVar(&f.kubeconfig, "write-kubeconfig", "", "Write a kubeconfig for the proxy, with the upstream kubeconfig's user, to this file")
}

// addReads defines the flags about which resources are cached and how they are read.
func (f *flags) addReads(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringSliceVar(&o.Resources, "resources", nil, "Resources to cache from the start: pods, deployments.apps, widgets.v1.example.com")
	fs.StringVar(&f.budget, "memory-budget", "0", "Bound of the memory of other resources, which are cached on demand; 0: none are")
	fs.StringVar(&f.consistency, "consistency", "proven",
		"How consistent reads are answered, which are LISTs and WATCHes without resourceVersion; proven: from the cache, once it "+
			"is proven to be current; upstream: by the upstream; cached: from the cache without proof, for --resources; cached:pods,nodes: for these")
	fs.DurationVar(&o.MaxStaleness, "max-staleness", 0,
		"Longest time since a resource was last shown to be the upstream's state, for which the cache answers a read without proof; 0: no bound")
	fs.StringVar(&f.log, "log-bytes", "8Mi", "Bound of each resource's change log, which is how far back watches resume")
	fs.DurationVar(&o.FlushInterval, "watch-flush-interval", 0,
		"Bound of the time between two writes to a watcher while changes keep coming, which grows with the number of watchers that are written to; "+
			"0: 25ms; negative: each change is written at once")
	fs.BoolVar(&o.ExpireSlowWatches, "expire-late-watches", false,
		"End a watch with 410 Expired once it is behind the change log (with a selector or a namespace: once more than 64 changes wait for it), or is to get changes that a relist has found; otherwise it is caught up from the state, each object once")
}

// addLimits defines the flags that bound the resources that clients use.
func (f *flags) addLimits(fs *pflag.FlagSet) {
	o := &f.options
	fs.IntVar(&o.MaxConnections, "max-connections", 0, "Bound of open connections; 0: 10000")
	fs.IntVar(&o.MaxConnectionsPerSource, "max-connections-per-source", 0,
		"Bound of the open connections of one address, for clients that connect directly and not through a load balancer or NAT; 0: none")
	fs.IntVar(&o.MaxRequests, "max-requests-inflight", 0, "Bound of reads in progress, watches apart; 0: 1000")
	fs.IntVar(&o.MaxMutating, "max-mutating-requests-inflight", 0, "Bound of other requests in progress; 0: 200")
	fs.IntVar(&o.MaxLongRunning, "max-longrunning-requests", 0, "Bound of watches, logs and upgraded connections; 0: 100000")
	fs.IntVar(&o.MaxWatchesPerUser, "max-watches-per-user", 0, "Bound of the watches, logs and upgraded connections of one user; 0: half of --max-longrunning-requests")
	fs.StringVar(&f.watches, "watch-memory", "2Gi", "Bound of the memory of all watches, with their connections; 0: no bound")
	fs.StringVar(&f.responses, "response-memory", "256Mi", "Bound of the memory of responses that clients have not read yet, watches apart, of which one user may have half; 0: no bound")
}

// addCallers defines the flags about authentication and authorization of callers.
func (f *flags) addCallers(fs *pflag.FlagSet) {
	o, a := &f.options, &f.options.Authentication
	fs.StringVar(&a.ClientCAFile, "client-ca-file", "", "CA of client certificates, in place of the one that the upstream publishes")
	fs.StringVar(&a.RequestHeaderCAFile, "requestheader-client-ca-file", "", "CA of front proxies, in place of the one that the upstream publishes")
	fs.StringSliceVar(&a.RequestHeaderNames, "requestheader-allowed-names", nil, "Common names that front proxies may have; empty: any")
	fs.StringSliceVar(&a.UserHeaders, "requestheader-username-headers", []string{"X-Remote-User"}, "Headers with the user's name")
	fs.StringSliceVar(&a.UIDHeaders, "requestheader-uid-headers", []string{"X-Remote-Uid"}, "Headers with the user's uid")
	fs.StringSliceVar(&a.GroupHeaders, "requestheader-group-headers", []string{"X-Remote-Group"}, "Headers with the user's groups")
	fs.StringSliceVar(&a.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"X-Remote-Extra-"}, "Prefixes of headers with the user's extras")
	fs.BoolVar(&a.SkipLookup, "authentication-skip-lookup", false, "Do not trust the CAs that the upstream publishes")
	fs.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", 0, "How long an answer about a token is kept; 0: 10s")
	fs.DurationVar(&a.AllowTTL, "authorization-webhook-cache-authorized-ttl", 0, "How long a permission is kept; 0: 10s")
	fs.DurationVar(&a.DenyTTL, "authorization-webhook-cache-unauthorized-ttl", 0, "How long a denial is kept; 0: 10s")
	fs.DurationVar(&o.Recheck, "recheck", 0, "How often the caller of each watch is reviewed, as long as 20 reviews a second suffice; 0: 1m")
	fs.DurationVar(&o.RecheckMax, "recheck-max", 0, "Longest time between two reviews of the caller of a watch, however many there are; 0: 1h")
	fs.DurationVar(&o.OutageGrace, "grace", 0, "How long the last answers about a caller count, for reads and watches, while the upstream cannot be reached; 0: 1h, negative: not at all")
}

// addOperation defines the flags about audit, logs, the debug page and the shutdown.
func (f *flags) addOperation(fs *pflag.FlagSet) {
	o := &f.options
	fs.StringVar(&o.Audit.PolicyFile, "audit-policy-file", "", "Policy of audit.k8s.io/v1, as kube-apiserver's: which of the requests that the proxy answers or refuses are recorded")
	fs.StringVar(&o.Audit.LogPath, "audit-log-path", "", "File to record audit events in; - is standard output")
	fs.IntVar(&o.Audit.MaxSize, "audit-log-maxsize", 0, "Megabytes after which the audit log is rotated; 0: 100")
	fs.IntVar(&o.Audit.MaxBackups, "audit-log-maxbackup", 0, "How many rotated audit logs are kept; 0: all")
	fs.IntVar(&o.Audit.MaxAge, "audit-log-maxage", 0, "For how many days rotated audit logs are kept; 0: for ever")
	fs.StringVar(&o.Audit.WebhookConfigFile, "audit-webhook-config-file", "", "Kubeconfig of a webhook to send audit events to")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay", 10*time.Second,
		"How long the proxy goes on serving after SIGTERM, unready, while watches end one by one; an interrupt does not wait, a second signal ends it at once")
	fs.Float64Var(&o.GoawayChance, "goaway-chance", 0,
		"Probability, 0 to 0.02, that a response asks an HTTP/2 client to use another connection, so that replicas share the load; 0.001 is a good value")
	fs.StringVar(&f.debugAddr, "debug-addr", "",
		"Serve a page at this address, such as :8080 on this machine alone, that shows what the proxy caches and whom it serves; who can reach the "+
			"page needs no credentials, and sees the users, and what changes in objects, but for Secrets and environment variables")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "Log more")
	fs.BoolVar(&f.check, "check-arguments", false, "End once the arguments are known to be right, without an upstream")
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
	if f.options.WatchMemory == 0 {
		f.options.WatchMemory = -1 // in options, 0 means the default, and -1 means no bound
	}
	if f.options.ResponseMemory == 0 {
		f.options.ResponseMemory = -1 // as above
	}
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
		return command.Usagef("--consistency %q: want proven, upstream, cached, or cached: and resources", f.consistency)
	}
	return f.options.Validate()
}

var errNoUpstream = errors.New("no upstream: there is no kubeconfig; name one by --kubeconfig or KUBECONFIG")

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
	fmt.Fprintf(cmd.ErrOrStderr(), "what the proxy does is shown at %s\n", url)
	return stop, nil
}
