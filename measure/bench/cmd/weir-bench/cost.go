package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/servers"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// newBenchCost returns the verb that measures the costs from which weir doctor makes predictions.
func newBenchCost(b *benchFlags) *cobra.Command {
	f := &serverFlags{benchFlags: b, Options: servers.Defaults()}
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Measure the costs of requests, from which weir doctor predicts",
		Long: "Cost measures how much each part of a request costs a kube-apiserver, and a weir proxy\n" +
			"in front of it: CPU per request, per object that the server compares with a selector,\n" +
			"per sent byte in each encoding, and per event; and memory per LIST in progress. It then\n" +
			"replays incidents of weir lab, and compares their costs with the predictions. Cost runs\n" +
			"for about five minutes and overloads the server: use a test cluster. -o json prints the\n" +
			"content of measure/doctor/cost/model.json; make cost-model measures that file again.\n\n" +
			"Without a cluster, cost measures the embedded server, which needs much less CPU and\n" +
			"memory than a kube-apiserver.",
		Example: "  go run ./e2e/realserver --pods 10000  # prints a kubeconfig and the address of etcd\n" +
			"  weir bench cost --kubeconfig PATH --etcd http://127.0.0.1:PORT",
		Args: command.NoArgs[*cobra.Command],
		RunE: func(cmd *cobra.Command, _ []string) error { return f.runCost(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.Proxy, "proxy", "",
		"The program weir-proxy; empty: the one next to this command, one built in a checkout, or the one in the path")
	fs.BoolVar(&f.Writes, "writes", false,
		"Allow setting an annotation on the cluster's pods, to measure the cost of events")
	fs.StringVar(&f.EtcdURL, "etcd", "",
		"URL of a test cluster's etcd, to change its pods there for the same purpose")
	return cmd
}

func (f *serverFlags) runCost(cmd *cobra.Command) error {
	ctx := cmd.Context()
	o, done, err := f.begin(cmd)
	if err != nil {
		return err
	}
	defer done()
	m, err := servers.MeasureCosts(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted")
		}
		return command.Explain(err)
	}
	m.Measured.Command = "make cost-model"
	if f.output != "json" {
		return printCosts(cmd.OutOrStdout(), m)
	}
	return figures.WriteJSON(cmd.OutOrStdout(), m)
}

// printCosts prints the coefficients, and the errors of the predictions.
func printCosts(w io.Writer, m *cost.Model) error {
	rows := [][]string{{"", "API server", "proxy"}}
	row := func(label string, unit func(float64) string, server, proxy float64) {
		rows = append(rows, []string{label, unit(server), unit(proxy)})
	}
	s, p := m.Server, m.Proxy
	row("a connection", humanize.Seconds, s.Connection, p.Connection)
	row("a LIST that finds nothing", humanize.Seconds, s.Request, p.Request)
	row("  without resourceVersion", humanize.Seconds, s.Quorum, p.Quorum)
	row("an examined object", humanize.Seconds, s.Looked, p.Looked)
	row("an event to a WATCH", humanize.Seconds, s.Event, p.Event)
	for _, encoding := range cost.Encodings() {
		s, p := s.Encodings[encoding], p.Encodings[encoding]
		row("a stored MB as "+string(encoding), humanize.Seconds, 1e6*s.Seconds, 1e6*p.Seconds)
		row("  sent", megabytes, s.Bytes, p.Bytes)
	}
	rows = append(rows,
		[]string{"memory: headroom", humanize.Number(100*m.Memory.Headroom) + " %", ""},
		[]string{"memory: per stored MB in a LIST", megabytes(m.Memory.Held), ""},
		[]string{"", "", ""}, []string{"predicted", "measured", "off by"})
	for _, c := range m.Checks {
		what, unit := strings.Join([]string{c.Incident, c.Way, c.Figure}, ", "), unitOf(c.Figure)
		rows = append(rows, []string{what + ": " + unit(c.Got), unit(c.Want), humanize.Number(c.Off())})
	}
	return figures.Write(w, figures.Fit(rows), rows...)
}

func megabytes(share float64) string { return humanize.Bytes(int64(1e6 * share)) }

// unitOf returns the function that formats a checked figure in its unit.
func unitOf(figure string) func(float64) string {
	if figure == cost.BytesFigure || figure == cost.PeakFigure {
		return func(v float64) string { return humanize.Bytes(int64(v)) }
	}
	return humanize.Seconds
}
