package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
	"github.com/weirproject/weir/measure/bench/internal/lab"
)

// labFlags are those of lab.
type labFlags struct {
	pods      int
	few       bool // fewer pods where the incident has many clients
	real      string
	page      string
	charts    string
	output    string
	incidents []lab.Incident
}

const labName = "lab"

// labPods is how many pods there are unless --pods says otherwise.
const labPods = 10_000

// maxLabPods bounds --pods, and so the memory that client-go's side takes.
const maxLabPods = 500_000

func newLab() *cobra.Command {
	f := &labFlags{}
	var names []string
	for _, i := range lab.Incidents() {
		names = append(names, i.Name)
	}
	cmd := &cobra.Command{
		Use:   labName + " [INCIDENT...]",
		Short: "Replay incidents of informers, client-go's and weir's side by side",
		Long: "Lab replays what informers are known to do to a cluster or to themselves, with client-go's and with weir's\n" +
			"on embedded servers, each in a process of its own. It prints a table, and writes a page with what it measured\n" +
			"over time. All of it takes two and a half minutes on two cores.\n\n" +
			"The incidents: " + wrap(strings.Join(names, ", ")) + ".\n\n" +
			"Some of them weigh more on a kube-apiserver than on the embedded server, which has weir's watch cache. Their\n" +
			"output says so. --real replays all on a kube-apiserver: on one for tests, since it is flooded with requests,\n" +
			"and an annotation of its pods is changed again and again.\n\n" +
			"With -o json it prints {at, pods, real, cpus, go, incidents[]{name, sides[]{side, figures{…}, trace{everyMillis,\n" +
			"rssBytes[], heapBytes[], cpuSeconds[], events[], marks[]{millis, what}}}}}. A figure's name ends in its unit.",
		Example: "  weir lab\n" +
			"  weir lab resync relist --pods 50000\n" +
			"  weir lab first-list --charts . --html ''\n" +
			"  go run ./e2e/realserver --pods 10000        # prints a kubeconfig\n" +
			"  weir lab node-agents --real PATH",
		ValidArgs: names,
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.pods, "pods", 0, fmt.Sprintf("Pods of the server, as many for each incident (default %s, or fewer where the incident has many clients)", humanize.Count(labPods)))
	fs.StringVar(&f.real, "real", "", "Replay on the kube-apiserver of this kubeconfig, a test cluster with pods, in the place of embedded servers")
	fs.StringVar(&f.page, "html", "lab.html", "Write the page to this file; empty: write none")
	fs.StringVar(&f.charts, "charts", "", "Write each incident's picture to INCIDENT.svg in this directory")
	fs.StringVarP(&f.output, "output", "o", "", "Output format: json; a table if empty")
	return cmd
}

func (f *labFlags) check(cmd *cobra.Command, args []string) (err error) {
	switch {
	case f.output != "" && f.output != "json":
		return command.Usagef("-o %s: the output can be json", f.output)
	case f.real != "" && cmd.Flags().Changed("pods"):
		return command.Usagef("--pods is of an embedded server; with --real the cluster has its own")
	case cmd.Flags().Changed("pods") && f.pods <= 0 || f.pods > maxLabPods:
		return command.Usagef("--pods must be from 1 to %s", humanize.Count(maxLabPods))
	}
	if f.few = f.pods == 0; f.few {
		f.pods = labPods
	}
	if f.incidents, err = lab.Named(args...); err != nil {
		return command.Usagef("%w", err)
	}
	if f.charts != "" {
		if info, err := os.Stat(f.charts); err != nil || !info.IsDir() {
			return command.Usagef("--charts %s: no such directory", f.charts)
		}
	}
	return nil
}

func (f *labFlags) run(cmd *cobra.Command, args []string) (err error) {
	if err := f.check(cmd, args); err != nil {
		return err
	}
	ctx, progress := cmd.Context(), cmd.ErrOrStderr()
	page, err := f.openPage() // before minutes are spent
	if err != nil {
		return err
	}
	if page != nil {
		defer os.Remove(page.Name()) // unless it has got its name
		defer page.Close()
	}
	o := lab.Options{Options: informers.Options{Objects: f.pods, Progress: progress}, Few: f.few}
	done, err := f.connect(ctx, &o)
	if err != nil {
		return err
	}
	defer done()
	if slices.ContainsFunc(f.incidents, func(i lab.Incident) bool { return !i.OfInformers() }) {
		path, done, err := command.Proxy.Find(ctx, progress)
		if err != nil {
			return err
		}
		defer done()
		o.Proxy = path
	}
	report, err := lab.Run(ctx, f.incidents, o)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted")
		}
		return err
	}
	if f.charts != "" {
		if err := report.WriteCharts(f.charts); err != nil {
			return err
		}
	}
	if page != nil {
		if err := report.WritePage(page); err != nil {
			return err
		}
		if err := page.Close(); err != nil {
			return err
		}
		if err := os.Rename(page.Name(), f.page); err != nil {
			return err
		}
		fmt.Fprintf(progress, "the page: %s\n", f.page)
	}
	if f.output == "json" {
		return figures.WriteJSON(cmd.OutOrStdout(), report)
	}
	return report.WriteTable(cmd.OutOrStdout())
}

// connect finds the kube-apiserver, or starts an embedded server where an incident needs one that
// is there already. done ends it.
func (f *labFlags) connect(ctx context.Context, o *lab.Options) (done func(), err error) {
	done = func() {}
	if f.real != "" {
		return done, f.connectReal(ctx, o)
	}
	if !slices.ContainsFunc(f.incidents, lab.Incident.OfInformers) {
		return done, nil
	}
	fmt.Fprintf(o.Progress, "starting an embedded API server with %s pods\n", humanize.Count(int64(f.pods)))
	server, err := process.StartServer(ctx, process.ServerSpec{Pods: f.pods, Seed: 1})
	if err != nil {
		return done, fmt.Errorf("start the embedded server: %w", err)
	}
	o.Config, o.Server = server.Config(), server.URL
	return func() { server.Close() }, nil
}

// connectReal finds the kube-apiserver and counts its pods.
func (f *labFlags) connectReal(ctx context.Context, o *lab.Options) error {
	flags := command.NewClusterFlags()
	if err := flags.Flags.Set("kubeconfig", f.real); err != nil {
		return err
	}
	cfg, err := flags.RestConfig()
	if err != nil {
		return fmt.Errorf("--real: %w", err)
	}
	if o.Objects, err = informers.Count(ctx, cfg); err != nil {
		return command.Explain(err)
	}
	o.Config, o.Args, o.Real = cfg, flags.Given(), true
	fmt.Fprintf(o.Progress, "replaying on %s, which has %s pods\n", cfg.Host, humanize.Count(int64(o.Objects)))
	return nil
}

// wrap breaks a list of names behind commas, for the help.
func wrap(list string) string {
	const width = 90
	out, line := "", 0
	for _, word := range strings.SplitAfter(list, ", ") {
		if line+len(word) > width {
			out, line = strings.TrimRight(out, " ")+"\n", 0
		}
		out, line = out+word, line+len(word)
	}
	return out
}

// openPage creates the page's file, under another name until it is whole; nil: none is wanted.
func (f *labFlags) openPage() (*os.File, error) {
	if f.page == "" {
		return nil, nil
	}
	page, err := os.OpenFile(f.page+".part", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--html: %w", err)
	}
	return page, nil
}
