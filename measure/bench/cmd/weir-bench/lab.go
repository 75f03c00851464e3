package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// labFlags are the flags of lab, and values that depend on them.
type labFlags struct {
	// Options contains the server for incidents of informers. Options.Objects is the number of the
	// server's pods. Each incident sets the other options.
	informers.Options
	few            bool   // use fewer pods if the incident has many clients; ignored if real is set
	real           string // a kubeconfig: replay on its kube-apiserver and change its pods
	proxy          string // the path of weir-proxy, for incidents of servers
	page           string
	charts, output string
	incidents      []incident
}

const labName = "lab"

// labPods is the default of --pods.
const labPods = 10_000

// maxLabPods limits --pods, because the memory of client-go's side grows in proportion to the pods.
const maxLabPods = 500_000

func newLab() *cobra.Command {
	f := &labFlags{}
	var names []string
	for _, i := range incidents() {
		names = append(names, i.Name)
	}
	cmd := &cobra.Command{
		Use:   labName + " [INCIDENT...]",
		Short: "Replay incidents of informers with client-go and with weir",
		Long: "Lab replays known incidents of informers on embedded servers: with client-go's informer and with weir's, each in\n" +
			"a separate process. It prints a table, and writes a page with charts of the measurements over time. All incidents\n" +
			"need two and a half minutes on two cores.\n\n" +
			"The incidents: " + strings.Join(humanize.Wrap(strings.Join(names, ", "), 90), "\n") + ".\n\n" +
			"Some incidents cost a kube-apiserver more than the embedded server, which has weir's watch cache. Their output\n" +
			"says so. --real replays all incidents on a kube-apiserver. Use a test cluster, because lab overloads it with\n" +
			"requests and repeatedly changes an annotation of its pods.\n\n" +
			"With -o json, lab prints {at, cpus, memoryBytes, go, clientGo, server, pods, real, incidents[]{name, sides[]{side,\n" +
			"figures{…}, trace{everyMillis, rssBytes[], heapBytes[], cpuSeconds[], events[], marks[]{millis, what}}}}}. The name\n" +
			"of a figure ends in its unit.",
		Example: "  weir lab\n" +
			"  weir lab resync relist --pods 50000\n" +
			"  weir lab first-list --charts . --html ''\n" +
			"  go run ./e2e/realserver --pods 10000        # prints a kubeconfig\n" +
			"  weir lab node-agents --real PATH",
		ValidArgs: names,
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.Objects, "pods", 0, fmt.Sprintf("Pods of the server, the same number for each incident (default %s, or fewer if the incident has many clients)", humanize.Count(labPods)))
	fs.StringVar(&f.real, "real", "", "Replay on the kube-apiserver of this kubeconfig, a test cluster with pods, instead of on embedded servers")
	fs.StringVar(&f.page, "html", "lab.html", "Write the page to this file; empty: no page")
	fs.StringVar(&f.charts, "charts", "", "Write each incident's chart to INCIDENT.svg in this directory")
	fs.StringVarP(&f.output, "output", "o", "", "Output format: json; a table if empty")
	return cmd
}

func (f *labFlags) check(cmd *cobra.Command, args []string) (err error) {
	switch {
	case f.output != "" && f.output != "json":
		return command.Usagef("-o %s: the output can be json", f.output)
	case f.real != "" && cmd.Flags().Changed("pods"):
		return command.Usagef("--pods applies to embedded servers; the cluster of --real has its own pods")
	case cmd.Flags().Changed("pods") && f.Objects <= 0 || f.Objects > maxLabPods:
		return command.Usagef("--pods must be from 1 to %s", humanize.Count(maxLabPods))
	}
	if f.few = f.Objects == 0; f.few {
		f.Objects = labPods
	}
	f.incidents, err = figures.Choose("incident", incidents(), func(i incident) string { return i.Name }, args...)
	if err != nil {
		return command.Usagef("%w", err)
	}
	if err := checkDirectory("html", filepath.Dir(f.page)); err != nil {
		return err
	}
	return checkDirectory("charts", f.charts)
}

// checkDirectory returns a usage error if a flag does not name an existing directory. It is called
// before the measurement, which takes minutes. An empty name is the current directory.
func checkDirectory(flag, dir string) error {
	if info, err := os.Stat(filepath.Clean(dir)); err != nil || !info.IsDir() {
		return command.Usagef("--%s: %s: no such directory", flag, dir)
	}
	return nil
}

func (f *labFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(cmd, args); err != nil {
		return err
	}
	ctx := cmd.Context()
	f.Progress = cmd.ErrOrStderr()
	done, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	if slices.ContainsFunc(f.incidents, func(i incident) bool { return !i.ofInformers() }) {
		done, err := findProxy(cmd, &f.proxy)
		if err != nil {
			return err
		}
		defer done()
	}
	report, err := f.replay(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted")
		}
		return err
	}
	if err := f.writeFiles(report); err != nil {
		return err
	}
	if f.output == "json" {
		return figures.WriteJSON(cmd.OutOrStdout(), report)
	}
	return report.writeTable(cmd.OutOrStdout())
}

// replay replays the incidents and prints a line for each side.
func (f *labFlags) replay(ctx context.Context) (*labReport, error) {
	report := &labReport{Pods: f.Objects, Real: f.real != "", setting: newSetting(f.real != "", f.Config)}
	count := len(f.incidents)
	for n, i := range f.incidents {
		replayed, err := i.run(ctx, f, func(side string, v figures.Values) {
			fmt.Fprintf(f.Progress, "%*d/%d %-18s %-20s %s\n", len(fmt.Sprint(count)), n+1, count, i.Name, side, figures.Headline(v, i.figures))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		report.Incidents = append(report.Incidents, replayed)
	}
	return report, nil
}

// writeFiles writes the pictures and the page, if flags ask for them.
func (f *labFlags) writeFiles(report *labReport) error {
	if f.charts != "" {
		if err := report.writeCharts(f.charts); err != nil {
			return err
		}
	}
	if f.page == "" {
		return nil
	}
	var page bytes.Buffer
	if err := report.writePage(&page); err != nil {
		return err
	}
	if err := os.WriteFile(f.page, page.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(f.Progress, "the page: %s\n", f.page)
	return nil
}

// connect looks up the kube-apiserver of --real, or starts an embedded server if an incident needs
// a running one. The function done stops the embedded server.
func (f *labFlags) connect(ctx context.Context) (done func(), err error) {
	done = func() {}
	if f.real != "" {
		return done, f.connectReal(ctx)
	}
	if !slices.ContainsFunc(f.incidents, incident.ofInformers) {
		return done, nil
	}
	fmt.Fprintf(f.Progress, "starting an embedded API server with %s pods\n", humanize.Count(int64(f.Objects)))
	server, err := process.StartServer(ctx, process.ServerSpec{Pods: f.Objects, Seed: 1})
	if err != nil {
		return done, fmt.Errorf("start the embedded server: %w", err)
	}
	f.Config, f.Server = server.Config(), server.URL
	return func() { server.Close() }, nil
}

// connectReal looks up the kube-apiserver and counts its pods.
func (f *labFlags) connectReal(ctx context.Context) error {
	flags := command.NewClusterFlags()
	if err := flags.Flags.Set("kubeconfig", f.real); err != nil {
		return err
	}
	cfg, err := flags.RestConfig()
	if err != nil {
		return fmt.Errorf("--real: %w", err)
	}
	if f.Objects, err = informers.Count(ctx, cfg); err != nil {
		return command.Explain(err)
	}
	f.Config, f.Args = cfg, flags.Given()
	fmt.Fprintf(f.Progress, "replaying on %s, which has %s pods\n", cfg.Host, humanize.Count(int64(f.Objects)))
	return nil
}
