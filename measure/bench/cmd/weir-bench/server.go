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
		Long: "Server makes the same requests to a kube-apiserver and to a weir proxy in front of it, several runs taken in turn, and\n" +
			"prints the medians, their ratio, and which of them miss what is wanted of the proxy. Each run of the proxy is a\n" +
			"fresh process. The load comes from this process; no figure includes it, but it needs CPU too. CPU and memory are read\n" +
			"from /proc where the server runs on this machine, else from its /metrics, which the kubeconfig's user must then be allowed\n" +
			"to read, as /debug/pprof is for the heap.\n\n" +
			"Without a cluster an embedded server is the proxy's upstream, and only the proxy is measured.\n\n" +
			"The cluster is only read from, unless --writes allows to set an annotation on its pods again and again. A kube-apiserver\n" +
			"has more work with these writes than with serving watchers: what they cost it alone is measured first and\n" +
			"taken off, and on a small machine their rate is not reached. --etcd is for test clusters: there the pods are written\n" +
			"straight into etcd, which costs kube-apiserver and proxy no more than following.\n\n" +
			"With -o json it prints an array of {name, weir{…}, apiserver{…}, ratio{…}, wanted{…}, missed[…], runs}.\n\n" +
			"What is measured, and the figures by their keys in -o json:\n\n" + what.String(),
		Example: "  go run ./e2e/realserver --pods 50000        # prints a kubeconfig, and where etcd is\n" +
			"  weir bench server --kubeconfig PATH --etcd http://127.0.0.1:PORT\n" +
			"  weir bench server --kubeconfig PATH --only label,list --runs 5",
		Args: command.NoArgs[*cobra.Command],
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.only, "only", nil, "Measure only these")
	fs.StringVar(&f.Proxy, "proxy", "", "The program weir-proxy; empty: the one beside this command, built in a checkout, or in the path")
	fs.BoolVar(&f.Writes, "writes", false, "Allow to set an annotation on the cluster's pods, for what is measured while pods change")
	fs.StringVar(&f.EtcdURL, "etcd", "", "URL of a test cluster's etcd, to write its pods there while they are to change")
	fs.IntVar(&f.SlowAPIServer, "slow-apiserver", 0, "Slow readers of kube-apiserver in slowlists, which may take all memory; 0: none, only of the proxy")
	fs.IntVar(&f.Kubelets, "kubelets", f.Kubelets, "Watchers of kubelets")
	fs.IntVar(&f.Watchers, "watchers", f.Watchers, "Watchers of everybody")
	fs.IntVar(&f.Crowd, "crowd", f.Crowd, "Watchers by node of crowd, beside --watchers of everything")
	fs.IntVar(&f.Stalled, "stalled", f.Stalled, "Watchers of stalled that read nothing")
	fs.IntVar(&f.Herd, "herd", f.Herd, "Clients of herd; fewer of many pods")
	fs.IntVar(&f.SlowProtobuf, "slow-protobuf", f.SlowProtobuf, "Slow readers of protobuf in slowlists")
	fs.IntVar(&f.SlowJSON, "slow-json", f.SlowJSON, "Slow readers of JSON in slowlists")
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
		return command.Usagef("--%s has no place with bench %s", wrong, cmd.Name())
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
		return command.Usagef("--etcd %q: want a URL such as http://127.0.0.1:2379, of an etcd that asks for no credentials", f.EtcdURL)
	}
	if !f.clusterChosen() {
		return command.Usagef("--etcd is of a cluster: choose it with --kubeconfig")
	}
	return nil
}

// begin checks the flags, finds the proxy and returns the options. The caller calls done after the
// measurement.
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
		fmt.Fprintf(o.Progress, "no cluster chosen: measuring only weir, in front of an embedded API server with %s pods\n", humanize.Count(int64(f.pods)))
		return o, nil
	}
	var err error
	if o.Config, err = f.RestConfig(); err != nil {
		return o, err
	}
	if err := informers.Check(cmd.Context(), o.Config); err != nil {
		return o, command.Explain(err)
	}
	how := "which is only read from"
	switch {
	case o.EtcdURL != "":
		how = "whose pods change in etcd"
	case o.Writes:
		how = "on whose pods an annotation is set"
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
			fmt.Fprintf(o.Progress, "%s is left out: it needs --writes or --etcd\n", s.Name)
			continue
		} else if errors.Is(err, servers.ErrNoWrites) {
			return command.Usagef("%s changes pods: it needs --writes or --etcd", s.Name)
		}
		r, err := b.Run(ctx, s)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted during %s", s.Name)
			}
			fmt.Fprintf(o.Progress, "%s: and on with the rest\n", command.OneLine(err))
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

// findProxy finds or builds the proxy's program, unless path already names it. The caller calls
// done when it no longer needs the program.
func findProxy(cmd *cobra.Command, path *string) (done func(), err error) {
	if *path != "" {
		return func() {}, nil
	}
	*path, done, err = command.Proxy.Find(cmd.Context(), cmd.ErrOrStderr())
	return done, err
}
