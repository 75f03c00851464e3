package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	informers.Options
}

const populationFlag = "population"

func newBench() *cobra.Command {
	f := &benchFlags{ClusterFlags: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "weir-bench",
		Short: "Measure weir's informer against client-go's",
		Long: "Bench measures weir's informer of pods against client-go's on the same server, each in a process of its own, several\n" +
			"runs taken in turn, and prints the medians and their ratio. The cluster that kubectl's flags choose is only read from;\n" +
			"without such a flag an embedded server is used. Without a verb it runs all of them\n" +
			"but server, which measures the other half, weir's proxy against kube-apiserver, cost and grow.\n\n" +
			"With -o json it prints an array of {name, weir{…}, clientgo{…}, ratio{…}, clientgoModes{list{…}, watchlist{…}}, floor{…},\n" +
			"runs, spread{…}}. A figure's name ends in its unit, and has the same name in each of the objects; in spread, whose objects are\n" +
			"named as the medians', it has the smallest and the largest value of all runs. A result that some flag makes another one has\n" +
			"that flag under flags.\n\n" +
			"With --dropin weir's side is the drop-in for client-go, package clientgo: the factories of both sides are the same\n" +
			"interfaces, and the handlers look at the objects, of an update at the old and the new one, and keep none. Nothing is\n" +
			"waited for until a heap is read: what a handler looks at does not stay decoded. A result's name ends in \"-dropin\" then.\n" +
			"How much objects have in common decides most figures. --population says which ones the embedded server has: pods that are\n" +
			"alike; pods of workloads that are unlike in shape and text; pods in which nothing repeats, random; or unlike pods among\n" +
			"objects of some thirty kinds, mixed. sync then measures a program with an informer of each kind, the others one of pods.\n" +
			"What controller-runtime reads by an index is measured by a benchmark in its own module, because linking it would add to\n" +
			"the memory of everything here: go test -run '^$' -bench ListByIndex ./controllerruntime",
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

// longOf returns the help of a verb: what it measures, and its figures. If the verb measures the
// drop-in differently, the help also says what it measures then.
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
	fs.IntVar(&f.Runs, "runs", 0, "Runs of each side; 0 for what suits the verb (3, or 1 for the long ones)")
	fs.IntVar(&f.pods, "pods", 50_000, "Pods of the embedded server, when no cluster is chosen")
	fs.StringVar(&f.Population, populationFlag, podsim.Alike,
		"Which objects the embedded server has: "+podsim.PopulationChoices())
	fs.IntVar(&f.Objects, "objects", 50_000, "Pods of the stub that watch, relist, leak and blocked use; lent by the server, copied if it has fewer")
	fs.DurationVar(&f.Period, "period", 30*time.Second, "Resync period of resync")
	fs.IntVar(&f.Relists, "relists", 5, "How often relist makes the informer list again")
	fs.DurationVar(&f.Duration, "duration", 0, "How long watch, blocked and read --dropin measure; 0 for what suits the verb (5s, 1m, 30s)")
	fs.BoolVar(&f.DropIn, "dropin", false, "Measure the drop-in for client-go, with handlers that look at the objects")
}

// addOwn adds the flags that only the verb v has.
func (f *benchFlags) addOwn(cmd *cobra.Command, v informers.Verb) {
	fs := cmd.Flags()
	for _, option := range v.Takes {
		switch option {
		case informers.TakesUnstructured:
			fs.BoolVar(&f.Unstructured, option, false, "As unstructured, from JSON")
		case informers.TakesCustom:
			fs.BoolVar(&f.Custom, option, false, "The stub's pods are custom resources, read by a generated client")
		case informers.TakesTransform:
			fs.BoolVar(&f.Transform, option, false, "Drop managedFields: by a transform, natively by Options.DropFields")
		case informers.TakesUnwrapped:
			fs.BoolVar(&f.Unwrapped, option, false, "With --dropin: on clients whose config was not wrapped")
		case informers.TakesHandlers:
			fs.IntVar(&f.Handlers, option, 1, "Handlers of the informer, all alike")
		case informers.TakesChange:
			fs.StringSliceVar(&f.Changes, option, []string{informers.ChangeMix},
				"What changes in the pods, one or several in turn: "+strings.Join(informers.Changes(), ", ")+
					"; lifecycle: rollouts replace pods, which are created, scheduled, started, ready and deleted, while others stay as they are")
		}
	}
}

// clusterChosen reports whether flags select a cluster. If not, an embedded server is measured.
func (f *benchFlags) clusterChosen() bool { return len(f.Given()) > 0 }

func (f *benchFlags) check() error {
	switch {
	case f.Overrides.Context.Namespace != "":
		return command.Usagef("bench measures with the pods of all namespaces: -n has no place")
	case f.output != "" && f.output != "json":
		return command.Usagef("-o %s: the output can be json", f.output)
	case f.Runs < 0:
		return command.Usagef("--runs cannot be negative")
	case f.pods <= 0 || f.Objects <= 0 || f.Relists <= 0:
		return command.Usagef("--pods, --objects and --relists must be above 0")
	case f.Objects > 10_000_000:
		return command.Usagef("--objects can be at most 10,000,000")
	case f.Unwrapped && !f.DropIn:
		return command.Usagef("--unwrapped is of the drop-in: it needs --dropin")
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
		return command.Usagef("--%s is of the embedded server: a cluster that is chosen has its own pods", populationFlag)
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

// unstructuredRuns returns one value for each time that a verb is run: whether that run is
// unstructured. If all verbs are run, sync is run both ways.
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
// an embedded server, which done stops. done is never nil.
func (f *benchFlags) connect(ctx context.Context) (done func() error, err error) {
	done = func() error { return nil }
	if !f.clusterChosen() {
		fmt.Fprintf(f.Progress, "no cluster chosen: measuring on an embedded API server with %s pods\n", humanize.Count(int64(f.pods)))
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
		fmt.Fprintf(f.Progress, "measuring on %s, which is only read from\n", f.Config.Host)
	}
	if err := informers.Check(ctx, f.Config); err != nil {
		done()
		return func() error { return nil }, command.Explain(err)
	}
	return done, nil
}
