package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// benchFlags are the flags that all verbs of bench have.
type benchFlags struct {
	*command.ClusterFlags
	output string
	pods   int
	runs   *pflag.Flag
	informers.Options
}

const populationFlag = "population"

func newBench() *cobra.Command {
	f := &benchFlags{ClusterFlags: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "weir-bench",
		Short: "Measure weir's informer against client-go's",
		Long: "Bench measures weir's informer of pods against client-go's on the same server. Each run is a separate process, and the\n" +
			"runs of both sides alternate. Bench prints the medians and their ratio. It only reads from the cluster that kubectl's\n" +
			"flags select; without such a flag, it starts an embedded server. Without a verb, bench runs all verbs except server,\n" +
			"which measures weir's proxy against kube-apiserver, cost and grow.\n\n" +
			"With -o json, bench prints an array of {name, weir{…}, clientgo{…}, ratio{…}, clientgoModes{list{…}, watchlist{…}},\n" +
			"floor{…}, runs, spread{…}}. The name of a figure ends in its unit, and is the same in all objects. spread has the same\n" +
			"objects as the result, with the smallest and the largest value of all runs in place of the median. If a flag changes\n" +
			"what is measured, flags contains that flag.\n\n" +
			"With --dropin, weir's side is the drop-in for client-go, package clientgo, behind the same factory interfaces as\n" +
			"client-go. The handlers read the objects, of an update the old and the new one, and retain none of them. Bench reads\n" +
			"the heap without waiting, because objects that a handler has read do not stay decoded. The name of such a result ends\n" +
			"in \"-dropin\".\n\n" +
			"Most figures depend on how similar the objects are. --population selects the objects of the embedded server: similar\n" +
			"pods (alike); pods of workloads with different shapes and texts (unlike); pods in which no text repeats (random); or\n" +
			"unlike pods among objects of about thirty kinds (mixed). With mixed, sync measures a program with an informer of each\n" +
			"kind, and the other verbs an informer of pods. A benchmark in module controllerruntime measures reads by an index\n" +
			"through controller-runtime, because linking that module here would add to all memory figures:\n" +
			"go test -run '^$' -bench ListByIndex ./controllerruntime",
		Example: "  weir bench sync --pods 10000\n" +
			"  weir bench relist --kubeconfig ~/.kube/config -o json\n" +
			"  weir bench sync --dropin --unstructured\n" +
			"  weir bench watch --dropin --change lifecycle\n" +
			"  weir bench watch --dropin --change mix,status,label\n" +
			"  weir bench sync --population unlike",
		Args: noVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, informers.Verbs()) },
	}
	f.add(cmd)
	for _, v := range informers.Verbs() {
		sub := &cobra.Command{
			Use: v.Name, Short: v.Short, Args: command.NoArgs[*cobra.Command],
			Long: longOf(v),
			RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, []informers.Verb{v}) },
		}
		f.addOwn(sub, v)
		cmd.AddCommand(sub)
	}
	all := &cobra.Command{
		Use: "all", Short: "All of these but server, cost and grow in turn, and sync as unstructured too", Args: command.NoArgs[*cobra.Command],
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, informers.Verbs()) },
	}
	cmd.AddCommand(all, newBenchServer(f), newBenchCost(f), newBenchGrow(f))
	return cmd
}

// longOf returns the help of a verb: what it measures, and its figures. If the verb measures
// something else with --dropin, the help also says what.
func longOf(v informers.Verb) string {
	const figures = ".\n\nThe figures, by their keys in -o json:\n\n"
	text := v.Short + figures + v.Figures()
	if d := v.DropIn(); d.Short != v.Short {
		text += "\nWith --dropin: " + d.Short + figures + d.Figures()
	}
	return text
}

func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return command.Usagef("bench has no verb %q; see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

// add adds the flags that all verbs have.
func (f *benchFlags) add(cmd *cobra.Command) {
	fs := cmd.PersistentFlags()
	fs.AddFlagSet(f.Flags)
	fs.StringVarP(&f.output, "output", "o", "", "Output format: json; a table if empty")
	fs.IntVar(&f.Runs, "runs", 0, "Runs of each side (default 3, or 1 for verbs that run long)")
	f.runs = fs.Lookup("runs")
	fs.IntVar(&f.pods, "pods", 50_000, "Pods of the embedded server, if no cluster is selected")
	fs.StringVar(&f.Population, populationFlag, podsim.Alike,
		"Objects of the embedded server: "+podsim.PopulationChoices())
	fs.IntVar(&f.Objects, "objects", 50_000, "Pods of the stub server of watch, relist, leak and blocked; they are the server's pods, and copies if it has fewer")
	fs.DurationVar(&f.Period, "period", 30*time.Second, "Resync period of the verb resync")
	fs.IntVar(&f.Relists, "relists", 5, "Number of relists of the verb relist")
	fs.DurationVar(&f.Duration, "duration", 0, "How long watch, blocked and read --dropin measure; 0: 5s, 1m and 30s")
	fs.BoolVar(&f.DropIn, "dropin", false, "Measure the drop-in for client-go, with handlers that read the objects")
}

// addOwn adds the flags that the verb v has in addition to the flags of all verbs.
func (f *benchFlags) addOwn(cmd *cobra.Command, v informers.Verb) {
	fs := cmd.Flags()
	for _, option := range v.Takes {
		switch option {
		case informers.TakesUnstructured:
			fs.BoolVar(&f.Unstructured, option, false, "Informers of unstructured objects, from JSON")
		case informers.TakesCustom:
			fs.BoolVar(&f.Custom, option, false, "Serve the stub's pods as custom resources, for a generated client")
		case informers.TakesTransform:
			fs.BoolVar(&f.Transform, option, false, "Drop managedFields: with a transform in client-go and the drop-in, with Options.DropFields in weir's informer")
		case informers.TakesUnwrapped:
			fs.BoolVar(&f.Unwrapped, option, false, "With --dropin: use clients whose config was not wrapped")
		case informers.TakesHandlers:
			fs.IntVar(&f.Handlers, option, 1, "Number of identical handlers of the informer")
		case informers.TakesChange:
			fs.StringSliceVar(&f.Changes, option, []string{informers.ChangeMix},
				"Changes of the pods, one or several in turn: "+strings.Join(informers.Changes(), ", ")+
					"; lifecycle: rollouts create, schedule, start and delete pods, and the other pods do not change")
		}
	}
}

// clusterChosen reports whether flags select a cluster. If not, an embedded server is measured.
func (f *benchFlags) clusterChosen() bool { return len(f.Given()) > 0 }

func (f *benchFlags) check() error {
	switch {
	case f.Overrides.Context.Namespace != "":
		return command.Usagef("-n: bench measures the pods of all namespaces")
	case f.output != "" && f.output != "json":
		return command.Usagef("-o %s: the output can be json", f.output)
	case f.runs.Changed && f.Runs <= 0:
		return command.Usagef("--runs must be above 0")
	case f.pods <= 0 || f.Objects <= 0 || f.Relists <= 0:
		return command.Usagef("--pods, --objects and --relists must be above 0")
	case f.Objects > 10_000_000:
		return command.Usagef("--objects can be at most 10,000,000")
	case f.Unwrapped && !f.DropIn:
		return command.Usagef("--unwrapped needs --dropin")
	case f.Handlers < 0:
		return command.Usagef("--handlers cannot be negative")
	case f.Period < time.Second:
		return command.Usagef("--period must be at least 1s")
	case f.Duration < 0:
		return command.Usagef("--duration cannot be negative")
	}
	if err := f.checkPopulation(); err != nil {
		return err
	}
	for i, change := range f.Changes {
		if !slices.Contains(informers.Changes(), change) || slices.Contains(f.Changes[:i], change) {
			return command.Usagef("--change %s: choose from %s, each once", change, strings.Join(informers.Changes(), ", "))
		}
	}
	return nil
}

// checkPopulation returns a usage error if the population does not exist, or if a cluster is
// selected and the population is not the default. Only the embedded server has other populations.
func (f *benchFlags) checkPopulation() error {
	if err := podsim.CheckPopulation(f.Population); err != nil {
		return command.Usagef("--%s: %v", populationFlag, err)
	}
	if f.Population != podsim.Alike && f.clusterChosen() {
		return command.Usagef("--%s applies to the embedded server: the selected cluster has its own pods", populationFlag)
	}
	return nil
}

func (f *benchFlags) run(cmd *cobra.Command, verbs []informers.Verb) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	f.Progress = cmd.ErrOrStderr()
	done, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	var results []informers.Result
	for i, v := range verbs {
		for _, unstructured := range f.unstructuredRuns(v, len(verbs) > 1) {
			o := f.Options
			o.Unstructured = unstructured
			r, err := informers.Run(ctx, v, o)
			if err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("interrupted during %s", v.Name)
				}
				return err
			}
			results = append(results, r)
			if f.output == "" {
				if err := printResult(out, r, i > 0 || unstructured && len(verbs) > 1); err != nil {
					return err
				}
			}
		}
	}
	if f.output == "json" {
		return figures.WriteJSON(out, results)
	}
	return nil
}

// unstructuredRuns returns one value for each run of a verb: true if this run is with unstructured
// objects. If bench runs all verbs, sync runs with typed objects and with unstructured ones.
func (f *benchFlags) unstructuredRuns(v informers.Verb, all bool) []bool {
	if all && v.Name == "sync" {
		return []bool{false, true}
	}
	return []bool{f.Unstructured}
}

func printResult(w io.Writer, r informers.Result, behind bool) error {
	if behind {
		fmt.Fprintln(w)
	}
	return r.WriteTable(w)
}

// connect sets the options that say where the server is. If the flags select no cluster, it starts
// an embedded server. The function done stops this server, and is never nil.
func (f *benchFlags) connect(ctx context.Context) (done func() error, err error) {
	done = func() error { return nil }
	if !f.clusterChosen() {
		fmt.Fprintf(f.Progress, "no cluster selected: measuring on an embedded API server with %s pods\n", humanize.Count(int64(f.pods)))
		server, err := process.StartServer(ctx, process.ServerSpec{Pods: f.pods, Population: f.Population, Seed: 1})
		if err != nil {
			return done, fmt.Errorf("start the embedded server: %w", err)
		}
		f.Server, f.Config, done = server.URL, server.Config(), server.Close
	} else {
		if f.Config, err = f.RestConfig(); err != nil {
			return done, err
		}
		f.Args = f.Given()
		fmt.Fprintf(f.Progress, "measuring on %s; bench only reads from it\n", f.Config.Host)
	}
	if err := informers.Check(ctx, f.Config); err != nil {
		done()
		return func() error { return nil }, command.Explain(err)
	}
	return done, nil
}
