package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
	"github.com/weirproject/weir/measure/bench/internal/servers"
)

// serverFlags are the flags of bench server. Some flags of bench apply too.
type serverFlags struct {
	*benchFlags
	servers.Options
	only []string
}

// notOfServer are flags of bench's other verbs that have no effect on bench server.
var notOfServer = []string{"objects", "period", "relists", "dropin"}

func newBenchServer(b *benchFlags) *cobra.Command {
	f := &serverFlags{benchFlags: b, Options: servers.Defaults()}
	var what strings.Builder
	for _, s := range servers.Scenarios() {
		fmt.Fprintf(&what, "  %-11s %s\n%s", s.Name, s.Short, s.Help())
	}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Measure weir's proxy against kube-apiserver",
		Long: "Server sends the same requests to a kube-apiserver and to a weir proxy in front of it. The runs of both sides alternate,\n" +
			"and each run of the proxy is a new process. Server prints the medians, their ratio, and the figures in which the proxy\n" +
			"misses its target. This process generates the load; no figure includes the load, but the load also needs CPU. If the\n" +
			"measured server runs on this machine, its CPU and memory come from /proc. Otherwise they come from its /metrics and\n" +
			"/debug/pprof, which the kubeconfig's user must be allowed to read.\n\n" +
			"Without a cluster, the proxy's upstream is an embedded server, and only the proxy is measured.\n\n" +
			"Server only reads from the cluster, unless --writes allows it to change an annotation of the pods repeatedly. These\n" +
			"writes cost a kube-apiserver more than serving watchers, so server first measures their cost alone and subtracts it. A\n" +
			"small machine does not reach the requested rate. --etcd is for test clusters: it changes the pods directly in etcd, so\n" +
			"that kube-apiserver and the proxy only follow the changes.\n\n" +
			"With -o json, server prints an array of {name, weir{…}, apiserver{…}, ratio{…}, wanted{…}, missed[…], runs}.\n\n" +
			"The measurements, and their figures by the keys in -o json:\n\n" + what.String(),
		Example: "  go run ./e2e/realserver --pods 50000        # prints a kubeconfig and the address of etcd\n" +
			"  weir bench server --kubeconfig PATH --etcd http://127.0.0.1:PORT\n" +
			"  weir bench server --kubeconfig PATH --only label,list --runs 5",
		Args: command.NoArgs[*cobra.Command],
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.only, "only", nil, "Run only these measurements")
	fs.StringVar(&f.Proxy, "proxy", "", "The program weir-proxy; empty: the one next to this command, one built in a checkout, or the one in the path")
	fs.BoolVar(&f.Writes, "writes", false, "Allow setting an annotation on the cluster's pods, for measurements while pods change")
	fs.StringVar(&f.EtcdURL, "etcd", "", "URL of a test cluster's etcd, to change its pods there for the same measurements")
	fs.IntVar(&f.SlowAPIServer, "slow-apiserver", 0, "Slow readers of kube-apiserver in slowlists, which may use all memory; 0: measure only the proxy")
	fs.IntVar(&f.Kubelets, "kubelets", f.Kubelets, "Watchers in kubelets")
	fs.IntVar(&f.Watchers, "watchers", f.Watchers, "Watchers in everybody")
	fs.IntVar(&f.Crowd, "crowd", f.Crowd, "Watchers by node in crowd, in addition to --watchers of all pods")
	fs.IntVar(&f.Stalled, "stalled", f.Stalled, "Watchers in stalled that read nothing")
	fs.IntVar(&f.Herd, "herd", f.Herd, "Clients in herd; fewer if there are many pods")
	fs.IntVar(&f.SlowProtobuf, "slow-protobuf", f.SlowProtobuf, "Slow readers in slowlists that request protobuf")
	fs.IntVar(&f.SlowJSON, "slow-json", f.SlowJSON, "Slow readers in slowlists that request JSON")
	return cmd
}

func (f *serverFlags) check(cmd *cobra.Command) error {
	if err := f.benchFlags.check(); err != nil {
		return err
	}
	var wrong string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains(notOfServer, flag.Name) {
			wrong = flag.Name
		}
	})
	if wrong != "" {
		return command.Usagef("--%s does not apply to bench %s", wrong, cmd.Name())
	}
	if _, err := servers.Named(f.only...); err != nil {
		return command.Usagef("--only: %v", err)
	}
	if f.Kubelets <= 0 || f.Watchers <= 0 || f.Herd <= 0 {
		return command.Usagef("--kubelets, --watchers and --herd must be above 0")
	}
	if f.Crowd <= 0 || f.Stalled < 0 {
		return command.Usagef("--crowd must be above 0, and --stalled cannot be negative")
	}
	if f.SlowProtobuf < 0 || f.SlowJSON < 0 || f.SlowAPIServer < 0 {
		return command.Usagef("--slow-protobuf, --slow-json and --slow-apiserver cannot be negative")
	}
	if f.EtcdURL == "" {
		return nil
	}
	if u, err := url.Parse(f.EtcdURL); err != nil || u.Scheme != "http" || u.Host == "" {
		return command.Usagef("--etcd %q: want a URL such as http://127.0.0.1:2379, of an etcd that requires no credentials", f.EtcdURL)
	}
	if !f.clusterChosen() {
		return command.Usagef("--etcd needs a cluster: select it with --kubeconfig")
	}
	return nil
}

// begin checks the flags, finds the proxy and returns the options. The caller must call the
// function done after the measurement.
func (f *serverFlags) begin(cmd *cobra.Command) (o servers.Options, done func(), err error) {
	if err := f.check(cmd); err != nil {
		return o, nil, err
	}
	if done, err = findProxy(cmd, &f.Proxy); err != nil {
		return o, nil, err
	}
	if o, err = f.prepare(cmd); err != nil {
		done()
		return o, nil, err
	}
	return o, done, nil
}

// prepare returns the options that the flags set.
func (f *serverFlags) prepare(cmd *cobra.Command) (servers.Options, error) {
	o := f.Options
	o.Runs, o.Pods, o.Population, o.Progress = f.benchFlags.Runs, f.pods, f.Population, cmd.ErrOrStderr()
	if f.benchFlags.Duration > 0 {
		o.Duration, o.Cheap, o.Follow = f.benchFlags.Duration, min(f.benchFlags.Duration, o.Cheap), min(f.benchFlags.Duration, o.Follow)
	}
	if !f.clusterChosen() {
		fmt.Fprintf(o.Progress, "no cluster selected: measuring only weir, in front of an embedded API server with %s pods\n", humanize.Count(int64(f.pods)))
		return o, nil
	}
	var err error
	if o.Config, err = f.RestConfig(); err != nil {
		return o, err
	}
	if err := informers.Check(cmd.Context(), o.Config); err != nil {
		return o, command.Explain(err)
	}
	how := "from which bench only reads"
	if o.EtcdURL != "" {
		how = "whose pods change in etcd"
	} else if o.Writes {
		how = "whose pods receive an annotation"
	}
	fmt.Fprintf(o.Progress, "measuring on %s, %s\n", o.Config.Host, how)
	return o, nil
}

func (f *serverFlags) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	o, done, err := f.begin(cmd)
	if err != nil {
		return err
	}
	defer done()
	scenarios, err := servers.Named(f.only...)
	if err != nil {
		return err
	}
	b, err := servers.Open(ctx, o)
	if err != nil {
		return command.Explain(err)
	}
	defer b.Close()
	begin := time.Now()
	results := []servers.Result{}
	var failed []error // if one measurement fails, the others continue
	for _, s := range scenarios {
		if err := b.Allows(s); err != nil && len(f.only) == 0 {
			fmt.Fprintf(o.Progress, "omitting %s: it needs --writes or --etcd\n", s.Name)
			continue
		} else if errors.Is(err, servers.ErrNoWrites) {
			return command.Usagef("%s changes pods: it needs --writes or --etcd", s.Name)
		}
		r, err := b.Run(ctx, s)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted during %s", s.Name)
			}
			fmt.Fprintf(o.Progress, "%s; continuing with the other measurements\n", command.OneLine(err))
			failed = append(failed, err)
			continue
		}
		results = append(results, r)
		if f.output == "" {
			if err := printServers(out, r, len(results) == 1); err != nil {
				return err
			}
		}
	}
	if f.output == "json" {
		err = figures.WriteJSON(out, results)
	} else if len(results) > 0 {
		_, err = fmt.Fprintf(out, "%s pods; medians; %s\n", humanize.Count(int64(b.Pods())), time.Since(begin).Round(time.Second))
	}
	return errors.Join(append(failed, err)...)
}

func printServers(w io.Writer, r servers.Result, first bool) error {
	if first {
		if err := servers.WriteHead(w); err != nil {
			return err
		}
	}
	return r.WriteRows(w)
}

// findProxy finds or builds the proxy's program, unless path already names it. The caller must call
// the function done when it no longer needs the program.
func findProxy(cmd *cobra.Command, path *string) (done func(), err error) {
	if *path != "" {
		return func() {}, nil
	}
	*path, done, err = command.Proxy.Find(cmd.Context(), cmd.ErrOrStderr())
	return done, err
}
