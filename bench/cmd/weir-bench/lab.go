package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/bench/internal/informers"
	"github.com/weirproject/weir/bench/internal/lab"
	"github.com/weirproject/weir/internal/childserver"
	"github.com/weirproject/weir/internal/command"
	"github.com/weirproject/weir/internal/quantity"
)

// labFlags are those of lab.
type labFlags struct {
	pods      int
	page      string
	charts    string
	output    string
	incidents []lab.Incident
}

const labName = "lab"

// mostLabPods bounds --pods, and so the memory that client-go's side takes.
const mostLabPods = 500_000

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
			"on the same embedded server, each in a process of its own. It prints a table, and writes a page with what it\n" +
			"measured over time. All of it takes some three minutes.\n\n" +
			"The incidents: " + strings.Join(names, ", ") + ".\n\n" +
			"With -o json it prints {at, pods, cpus, go, incidents[]{name, sides[]{side, figures{…}, trace{everyMillis,\n" +
			"rssBytes[], heapBytes[], cpuSeconds[], events[], marks[]{millis, what}}}}}. A figure's name ends in its unit.",
		Example: "  weir lab\n" +
			"  weir lab resync relist --pods 50000\n" +
			"  weir lab first-list --charts . --html ''",
		ValidArgs: names,
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.pods, "pods", 10_000, "Pods of the server")
	fs.StringVar(&f.page, "html", "lab.html", "Write the page to this file; empty: write none")
	fs.StringVar(&f.charts, "charts", "", "Write each incident's picture to INCIDENT.svg in this directory")
	fs.StringVarP(&f.output, "output", "o", "", "Output format: json; a table if empty")
	return cmd
}

func (f *labFlags) check(args []string) (err error) {
	switch {
	case f.output != "" && f.output != "json":
		return command.Usagef("-o %s: the output can be json", f.output)
	case f.pods <= 0 || f.pods > mostLabPods:
		return command.Usagef("--pods must be from 1 to %s", quantity.Count(mostLabPods))
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
	if err := f.check(args); err != nil {
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
	fmt.Fprintf(progress, "starting an embedded API server with %s pods\n", quantity.Count(int64(f.pods)))
	server, err := childserver.Start(ctx, childserver.Spec{Pods: f.pods, Seed: 1})
	if err != nil {
		return fmt.Errorf("start the embedded server: %w", err)
	}
	defer server.Close()
	report, err := lab.Run(ctx, f.incidents, informers.Options{
		Config: server.Config(), Server: server.URL, Objects: f.pods, Progress: progress,
	})
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
		return report.WriteJSON(cmd.OutOrStdout())
	}
	return report.WriteTable(cmd.OutOrStdout())
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
