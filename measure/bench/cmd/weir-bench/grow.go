package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/growth"
)

// growFlags are the flags of bench grow. Some of bench's apply too.
type growFlags struct {
	*benchFlags
	only    []string
	most    int
	chart   string
	etcdURL string
	writes  bool
	proxy   string
}

func newBenchGrow(b *benchFlags) *cobra.Command {
	f := &growFlags{benchFlags: b}
	var what, names strings.Builder
	for i, a := range growth.Axes(growth.Options{}) {
		fmt.Fprintf(&what, "  %-10s %s\n%s", a.Name, a.Label, a.Help())
		if i > 0 {
			names.WriteString(", ")
		}
		names.WriteString(a.Name)
	}
	cmd := &cobra.Command{
		Use: "grow", Short: "How the figures grow: with objects, informers, handlers and watchers", Args: command.NoArgs[*cobra.Command],
		Long: "Grow measures informers of up to 500,000 pods, up to 100 informers, up to 1,000 handlers and up to 100 informers of 100\n" +
			"handlers each beside client-go's, and up to 10,000 watchers of the watch cache, with a kubeconfig beside\n" +
			"kube-apiserver's. Each side is measured once at each point, in a process of its own. What would take more memory than\n" +
			"there is is left out. All of it takes about 40 minutes on 2 cores; --only and --most make it less. Progress goes to\n" +
			"stderr, a line for each point.\n\n" +
			"Pods come from a stub, which copies those of the server. Watchers change pods: on a cluster --writes or --etcd have to\n" +
			"allow it, as for weir bench server. LISTs at a time are those of all informers of the process.\n\n" +
			"With -o json it prints {at, cpus, go, axes[]{name, points[]{n, side, figures{…}, skipped}}}. A figure's name ends in its\n" +
			"unit.\n\nWhat grows, and the figures by their keys in -o json:\n\n" + what.String(),
		Example: "  weir bench grow --chart growth.svg\n" +
			"  weir bench grow --only objects --most 50000 --population unlike --dropin",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.only, "only", nil, "Grow only these: "+names.String())
	fs.IntVar(&f.most, "most", 0, "Leave out points above this; 0: none")
	fs.StringVar(&f.chart, "chart", "", "Draw the figures as an SVG in this file")
	fs.StringVar(&f.etcdURL, "etcd", "", "URL of a test cluster's etcd, to write its pods there for the watchers")
	fs.BoolVar(&f.writes, "writes", false, "Allow to set an annotation on the cluster's pods, for the watchers")
	fs.StringVar(&f.proxy, "proxy", "", "The program weir-proxy; empty: the one beside this command, built in a checkout, or in the path")
	return cmd
}

// axes returns the axes to measure: those of --only, without the points above --most. It returns a
// usage error if a flag makes no sense.
func (f *growFlags) axes(o growth.Options) ([]growth.Axis, error) {
	axes, err := growth.Named(growth.Axes(o), f.only...)
	if err != nil {
		return nil, command.Usagef("--only: %w", err)
	}
	if f.most < 0 {
		return nil, command.Usagef("--most cannot be negative")
	}
	if f.most > 0 {
		for i := range axes {
			axes[i] = axes[i].AtMost(f.most)
		}
	}
	return axes, nil
}

func (f *growFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	if _, err := f.axes(growth.Options{}); err != nil { // before an hour is spent
		return err
	}
	ctx := cmd.Context()
	f.Progress = cmd.ErrOrStderr()
	chart, err := f.openChart()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, chart.Close()) }()
	done, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	o := growth.Options{
		Informers: f.Options, Pods: f.pods, Writes: f.writes, EtcdURL: f.etcdURL, Proxy: f.proxy, Duration: f.Duration, Progress: f.Progress,
	}
	if len(f.Given()) > 0 {
		o.Config = f.Config
	}
	axes, err := f.axes(o)
	if err != nil {
		return err
	}
	if o.Proxy == "" && growsWatchers(axes) {
		path, end, err := command.Proxy.Find(ctx, f.Progress)
		if err != nil {
			return err
		}
		defer end()
		o.Proxy = path
	}
	report, failed := growth.Run(ctx, axes, o)
	if report == nil {
		return fmt.Errorf("interrupted")
	}
	report.Flags = f.told()
	return errors.Join(failed, report.WriteChart(chart), f.print(cmd.OutOrStdout(), report))
}

// told returns the flags that a report names because they change what is measured: --dropin, and a
// population that is not the usual one.
func (f *growFlags) told() (flags []string) {
	if f.DropIn {
		flags = append(flags, "--dropin")
	}
	if f.Population != "" && f.Population != "alike" {
		flags = append(flags, "--population "+f.Population)
	}
	return flags
}

func growsWatchers(axes []growth.Axis) bool {
	for _, a := range axes {
		if a.Name == "watchers" {
			return true
		}
	}
	return false
}

func (f *growFlags) openChart() (io.WriteCloser, error) {
	if f.chart == "" {
		return nowhere{io.Discard}, nil
	}
	return os.Create(f.chart)
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

func (f *growFlags) print(w io.Writer, report *growth.Report) error {
	if f.output == "" {
		return report.WriteTable(w)
	}
	return figures.WriteJSON(w, report)
}
