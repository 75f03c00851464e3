package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// growFlags are the flags of bench grow. Some flags of bench apply too.
type growFlags struct {
	*benchFlags
	only      []string
	most      int
	chart     string
	etcdURL   string
	writes    bool
	proxy     string
	available func() float64 // available memory, in bytes; 0 if unknown
}

func newBenchGrow(b *benchFlags) *cobra.Command {
	f := &growFlags{benchFlags: b, available: availableMemory}
	var what strings.Builder
	var names []string
	for _, a := range axes(false) {
		fmt.Fprintf(&what, "  %-10s %s\n%s", a.name, a.label, a.help())
		names = append(names, a.name)
	}
	cmd := &cobra.Command{
		Use: "grow", Short: "Measure figures for growing numbers of objects, informers, handlers and watchers", Args: command.NoArgs[*cobra.Command],
		Long: "Grow measures weir and client-go with up to 500,000 pods, up to 100 informers, up to 1,000 handlers, and up to 100\n" +
			"informers of 100 handlers each. It also measures up to 10,000 watchers of the watch cache and, with a kubeconfig, of\n" +
			"kube-apiserver. It measures each side once per point, in a separate process. It omits points that would need more\n" +
			"memory than the machine has. All points need about 40 minutes on 2 cores; --only and --most select some of them. Grow\n" +
			"prints one line per point to stderr.\n\n" +
			"The pods come from a stub server, which copies the pods of the real one. To measure watchers, grow changes pods; on a\n" +
			"cluster, --writes or --etcd must allow that, as for weir bench server. The number of concurrent LISTs is counted over\n" +
			"all informers of the process.\n\n" +
			"With -o json, grow prints {at, cpus, memoryBytes, go, clientGo, server, axes[]{name, points[]{n, side, figures{…},\n" +
			"skipped}}}. The name of a figure ends in its unit.\n\nThe axes, and their figures by the keys in -o json:\n\n" + what.String(),
		Example: "  weir bench grow --chart growth.svg\n" +
			"  weir bench grow --only objects --most 50000 --population unlike --dropin",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.only, "only", nil, "Measure only these axes: "+strings.Join(names, ", "))
	fs.IntVar(&f.most, "most", 0, "Omit points above this number; 0: omit none")
	fs.StringVar(&f.chart, "chart", "", "Write a chart of the figures to this SVG file")
	fs.StringVar(&f.etcdURL, "etcd", "", "URL of a test cluster's etcd, to change its pods there for the watchers")
	fs.BoolVar(&f.writes, "writes", false, "Allow setting an annotation on the cluster's pods, for the watchers")
	fs.StringVar(&f.proxy, "proxy", "", "The program weir-proxy; empty: the one next to this command, one built in a checkout, or the one in the path")
	return cmd
}

// chosenAxes returns the axes of --only, without the points above --most. It returns a usage error
// if a flag is invalid.
func (f *growFlags) chosenAxes() ([]axis, error) {
	chosen, err := figures.Choose("axis", axes(f.clusterChosen()), func(a axis) string { return a.name }, f.only...)
	if err != nil {
		return nil, command.Usagef("--only: %w", err)
	}
	if f.most < 0 {
		return nil, command.Usagef("--most cannot be negative")
	}
	for i := range chosen {
		chosen[i].points = slices.DeleteFunc(chosen[i].points, func(n int) bool { return f.most > 0 && n > f.most })
	}
	return chosen, nil
}

func (f *growFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	axes, err := f.chosenAxes()
	if err != nil {
		return err
	}
	if err := checkDirectory("chart", filepath.Dir(f.chart)); err != nil {
		return err
	}
	ctx := cmd.Context()
	f.Progress = cmd.ErrOrStderr()
	done, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	if slices.ContainsFunc(axes, func(a axis) bool { return a.name == "watchers" }) {
		end, err := findProxy(cmd, &f.proxy)
		if err != nil {
			return err
		}
		defer end()
	}
	report, failed := f.measure(ctx, axes)
	if report == nil {
		return fmt.Errorf("interrupted")
	}
	if f.chart != "" {
		failed = errors.Join(failed, os.WriteFile(f.chart, []byte(report.chart()), 0o644))
	}
	if f.output == "json" {
		return errors.Join(failed, figures.WriteJSON(cmd.OutOrStdout(), report))
	}
	return errors.Join(failed, report.writeTable(cmd.OutOrStdout()))
}

// told returns the flags that a report names, because they change what is measured: --dropin, and a
// population that is not the default.
func (f *growFlags) told() (flags []string) {
	if f.DropIn {
		flags = append(flags, "--dropin")
	}
	if f.Population != "" && f.Population != podsim.Alike {
		flags = append(flags, "--population "+f.Population)
	}
	return flags
}
