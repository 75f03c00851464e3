package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
)

// demoPods is the number of pods of the embedded server if no cluster is configured.
const demoPods = 10_000

// watchFlags are the flags of `weir watch`.
type watchFlags struct {
	*command.ClusterFlags
	allNamespaces bool
	selector      string
	fieldSelector string
	output        string
	once          bool
	stats         bool
	all           bool
	onlyChanges   bool
	verbose       bool
	diff          bool
	watch         bool
	embedded      int
	debugAddr     string
}

func newWatch() *cobra.Command {
	f := &watchFlags{ClusterFlags: command.NewClusterFlags()}
	cmd := &cobra.Command{
		Use:   "watch RESOURCE[,RESOURCE...] [NAME...] | RESOURCE/NAME...",
		Short: "Print objects and their changes",
		Long: "Watch prints the objects of a resource, in kubectl's columns, and then each change. On a terminal it prints at most one\n" +
			"screen of objects, and first those that need attention, such as pods that are not ready; a pipe or file receives all. It\n" +
			"lists and watches each of several resources, such as pods,deployments, once, and prints them together.\n\n" +
			"Watch uses kubectl's flags and kubeconfig. If no cluster is configured, it starts an embedded API server with\n" +
			"10,000 simulated pods and watches them.",
		Example: "  weir watch pods -A\n" +
			"  weir watch deployments.apps -n web -l tier=front\n" +
			"  weir watch pod/web-0 deployment/web -n web\n" +
			"  weir watch pods,deployments -A --diff\n" +
			"  weir watch pods -A -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName\n" +
			"  weir watch pods -A --once -o json\n" +
			"  weir watch pods -A --only-changes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("which RESOURCE? For example: %s pods -A", cmd.CommandPath())
			}
			targets, err := parseTargets(args)
			if err == nil && len(targets[0].names) > 0 && (f.selector != "" || f.fieldSelector != "") {
				err = command.Usagef("-l and --field-selector select objects of which the NAME is not known: they cannot be used with a NAME")
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.AddFlagSet(f.Flags)
	fs.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "All namespaces")
	fs.StringVarP(&f.selector, "selector", "l", "", "Label selector, such as app=web,tier!=cache")
	fs.StringVar(&f.fieldSelector, "field-selector", "", "Field selector, such as spec.nodeName=node-7")
	fs.StringVarP(&f.output, "output", "o", "", "Output format: json for a line of JSON per object and change, yaml, name, jsonpath=TEMPLATE,\n"+
		"custom-columns=HEADER:PATH,..., wide for more columns; empty: a table")
	fs.BoolVarP(&f.watch, "watch", "w", true, "Accepted because kubectl has this flag; this command always watches")
	fs.BoolVar(&f.once, "once", false, "End after the objects, without watching their changes")
	fs.BoolVar(&f.all, "all", false, "Print all objects at the start, even if they do not fit on the terminal")
	fs.BoolVar(&f.onlyChanges, "only-changes", false, "Print no objects at the start, only changes")
	fs.BoolVar(&f.stats, "stats", false, "With --once: print numbers about the objects instead of the objects; -o can be json or yaml")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "Print the parts of the memory, the received bytes and the number of requests too")
	fs.BoolVar(&f.diff, "diff", false, "Print the changed paths of each object below its row")
	fs.IntVar(&f.embedded, "embedded", 0, "Watch an embedded API server with this number of simulated pods instead of a cluster")
	fs.StringVar(&f.debugAddr, "debug-addr", "", "Serve a page that shows the informer, and profiles, at this address; :8080 is on loopback only")
	completion{f.ClusterFlags}.complete(cmd)
	return cmd
}

// check checks the flags without contacting a server, and returns the parsed value of -o.
func (f *watchFlags) check() (*format, error) {
	if f.allNamespaces && f.Overrides.Context.Namespace != "" {
		return nil, command.Usagef("-n %s and -A cannot be used together", f.Overrides.Context.Namespace)
	}
	if reasons := validation.ValidateNamespaceName(f.Overrides.Context.Namespace, false); f.Overrides.Context.Namespace != "" && len(reasons) > 0 {
		return nil, command.Usagef("-n %s: not a valid namespace name", f.Overrides.Context.Namespace)
	}
	if _, err := labels.Parse(f.selector); err != nil {
		return nil, command.Usagef("-l %s: %w", f.selector, err)
	}
	if _, err := fields.ParseSelector(f.fieldSelector); err != nil {
		return nil, command.Usagef("--field-selector %s: %w", f.fieldSelector, err)
	}
	if !f.watch {
		return nil, command.Usagef("--watch=false: this command always watches; --once ends it after the first sync")
	}
	if f.diff && (f.once || f.output != "" && f.output != outputWide) {
		return nil, command.Usagef("--diff prints changes below the rows of the table: it cannot be used with --once or -o")
	}
	if f.onlyChanges && (f.once || f.all) {
		return nil, command.Usagef("--only-changes prints no objects at the start: it cannot be used with --once or --all")
	}
	if f.stats && (!f.once || f.all || !slices.Contains([]string{"", outputJSON, outputYAML}, f.output)) {
		return nil, command.Usagef("--stats prints numbers about the objects: it needs --once, and -o can only be json or yaml")
	}
	if _, err := debugAddress(f.debugAddr); err != nil {
		return nil, err
	}
	if f.embedded < 0 {
		return nil, command.Usagef("--embedded cannot be negative")
	}
	if name := f.AboutCluster(); f.embedded > 0 && name != "" {
		return nil, command.Usagef("--embedded and %s cannot be used together: --embedded starts a server, and %[1]s selects a cluster", name)
	}
	return parseFormat(f.output)
}

// printsObjects reports whether the output contains other fields of objects than their names.
func (f *watchFlags) printsObjects() bool {
	switch output, _, _ := strings.Cut(f.output, "="); output {
	case outputJSONPath, outputCustomColumns, outputJSON, outputYAML:
		return !f.stats
	}
	return f.diff
}

// tabular reports whether the output is a table.
func (f *watchFlags) tabular() bool {
	return f.output == "" || f.output == outputWide || strings.HasPrefix(f.output, outputCustomColumns+"=")
}

func (f *watchFlags) run(cmd *cobra.Command, args []string) error {
	targets, err := parseTargets(args)
	if err != nil {
		return err
	}
	format, err := f.check()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := f.openOrEmbed(cmd)
	if err != nil {
		return err
	}
	defer c.close()
	targets, err = discover(ctx, c.config, targets)
	if err != nil {
		return err
	}
	stop, err := serveDebug(ctx, f.debugAddr, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer stop()
	return f.follow(ctx, f.watches(cmd, c, targets, format))
}

// watches returns one watch per resource; they share a sheet.
func (f *watchFlags) watches(cmd *cobra.Command, c *cluster, targets []target, format *format) []*watch {
	var watches []*watch
	for _, t := range targets {
		r := t.found
		w := &watch{watchFlags: f, format: format, resource: r, names: t.names, config: c.config, namespace: f.scope(c, r), err: cmd.ErrOrStderr()}
		if c.embedded && r.Resource == "pods" && w.namespace == "" && w.selectors() == nil {
			w.expected = c.pods
		}
		if f.tabular() && !f.stats {
			w.columns = columnsOf(cmd.Context(), c.config, r)
		}
		watches = append(watches, w)
	}
	sheet := newSheet(cmd.OutOrStdout(), watches...)
	if len(format.headers) > 0 {
		sheet.objects.header = format.headers
		sheet.changes = sheet.objects
	}
	for _, w := range watches {
		w.sheet = sheet
	}
	return watches
}

// follow follows all resources until ctx ends or following one of them fails. With --once it
// follows one resource after the other, in the order of their names on the command line.
func (f *watchFlags) follow(ctx context.Context, watches []*watch) error {
	if f.once {
		for _, w := range watches {
			if err := w.follow(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	together, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(watches))
	for _, w := range watches {
		go func() { ended <- w.follow(together) }() // ends with together
	}
	var first error
	for range watches {
		if err := <-ended; err != nil && first == nil {
			first = err
			stop()
		}
	}
	return first
}

// openOrEmbed opens the configured cluster. If no cluster is configured or --embedded is set, it
// starts an embedded server instead.
func (f *watchFlags) openOrEmbed(cmd *cobra.Command) (*cluster, error) {
	pods := f.embedded
	if pods == 0 {
		configured, err := f.Configured()
		if err != nil {
			return nil, err
		}
		if name := f.AboutCluster(); !configured && name != "" {
			return nil, command.Usagef("%s needs a cluster, and none is configured", name)
		}
		if !configured {
			pods = demoPods
			fmt.Fprint(cmd.ErrOrStderr(), "no cluster is configured: ")
		}
	}
	if pods > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "starting an embedded API server with %s simulated pods\n", humanize.Count(int64(pods)))
	}
	return open(cmd.Context(), cmd.ErrOrStderr(), f.ClusterFlags, pods)
}

// scope returns the namespace to watch, or "" for all namespaces. On an embedded server, "" is the
// default, because that server's namespace "default" is empty.
func (f *watchFlags) scope(c *cluster, r serverResource) string {
	if f.allNamespaces || !r.Namespaced || c.embedded && f.Overrides.Context.Namespace == "" {
		return ""
	}
	return c.namespace
}

// debugAddress returns the address of --debug-addr; "" means none.
func debugAddress(flag string) (string, error) {
	address, err := command.DebugAddress(flag)
	if err != nil {
		return "", command.Usagef("--debug-addr %s: %w", flag, err)
	}
	return address, nil
}

// serveDebug serves the page of package debug at the address of --debug-addr, until stop is called,
// and prints the address.
func serveDebug(ctx context.Context, flag string, stderr io.Writer) (stop func(), err error) {
	address, err := debugAddress(flag)
	if address == "" || err != nil {
		return func() {}, err
	}
	url, stop, err := command.ServeDebugPage(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("--debug-addr %s: %w", flag, err)
	}
	fmt.Fprintf(stderr, "a page that shows the informer: %s\n", url)
	return stop, nil
}
