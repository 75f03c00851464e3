// Command baseline records figures of Weir, and compares the figures of a later version of the code
// with them. No change to Weir may make a figure worse than its limit. make baseline and make
// baseline-check run it.
//
// It builds weir-bench in a checkout, runs it once for each row of its table, and writes the result
// of each row to a file. If the file exists and has the same build and flags, the command does not
// measure the row again. So an interrupted run can continue.
//
// The exit code is 1 if a row failed or a figure breaks its limit, and 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// options are the flags of the command line.
type options struct {
	tree        string // the checkout to measure
	dir         string // the directory of the baseline
	check       bool   // compare tree with the baseline instead of recording a baseline
	pods        int
	runs        int // per row of weir-bench
	programRuns int // per row of make programs
	rows        []row
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "baseline: %v (see -help)\n", err)
		return 2
	}
	kept, err := o.run(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "baseline: %v\n", err)
	}
	if err != nil || !kept {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	set := flag.NewFlagSet("baseline", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&o.tree, "tree", ".", "the checkout to measure, such as a git worktree of another commit")
	set.StringVar(&o.dir, "dir", "measure/bench/baseline", "the directory of the baseline's files")
	set.BoolVar(&o.check, "check", false, "compare the checkout with the baseline; its own results go to dist/baseline")
	set.IntVar(&o.pods, "pods", 50_000, "number of pods")
	set.IntVar(&o.runs, "runs", 5, "number of alternating runs of each side")
	set.IntVar(&o.programRuns, "program-runs", 1, "number of runs of each program from another project")
	only := set.String("only", "", "measure only these rows, separated by commas")
	without := set.String("without", "", "omit these rows")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			set.SetOutput(stderr)
			set.PrintDefaults()
		}
		return o, err
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if o.pods <= 0 || o.runs <= 0 || o.programRuns <= 0 {
		return o, errors.New("-pods, -runs and -program-runs must be above 0")
	}
	o.rows, err = choose(*only, *without)
	return o, err
}

// choose returns the rows that the flag -only names, or all rows if that flag is empty. It leaves
// out the rows that the flag -without names. Each flag has names separated by commas.
func choose(only, without string) ([]row, error) {
	named := func(list string) ([]row, error) {
		names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		return figures.Choose("row", rows, func(r row) string { return r.name }, names...)
	}
	chosen, err := named(only)
	if err != nil || without == "" {
		return chosen, err
	}
	out, err := named(without)
	return slices.DeleteFunc(slices.Clone(chosen), func(r row) bool {
		return slices.ContainsFunc(out, func(o row) bool { return o.name == r.name })
	}), err
}

// run measures the rows that have no result, and prints the table. kept reports whether every
// figure is within its limit.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) (kept bool, err error) {
	m, err := newMeasurer(ctx, o, stderr)
	if err != nil {
		return false, err
	}
	defer m.close()
	failed := m.measure(ctx)
	if ctx.Err() != nil {
		return false, errors.New("interrupted; the measured rows are saved")
	}
	baseline, err := load(o.dir, rows)
	if err != nil {
		return false, err
	}
	now, err := load(m.out, o.rows)
	if err != nil {
		return false, err
	}
	text, kept := table(o.rows, baseline, now)
	if _, err := io.WriteString(stdout, text); err != nil {
		return false, err
	}
	if o.check {
		return kept, failed
	}
	all, _ := table(rows, baseline, baseline)
	return true, errors.Join(failed, os.WriteFile(filepath.Join(o.dir, "table.md"), []byte(all), 0o644))
}
