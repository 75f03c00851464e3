package main

import (
	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
)

func newBench() *cobra.Command {
	return measures(&cobra.Command{
		Use:   "bench",
		Short: "Measure weir's informer against client-go's",
		Long: "Bench measures weir's informer against client-go's, and weir's proxy against kube-apiserver. It runs the program\n" +
			command.Bench.Name() + ", which is installed next to this command, or which it builds in a checkout. See weir bench --help.",
	})
}

func newLab() *cobra.Command {
	return measures(&cobra.Command{
		Use:   "lab",
		Short: "Replay incidents of informers with client-go and with weir",
		Long: "Lab replays known incidents of informers, with client-go's informer and with weir's, and draws charts of them.\n" +
			"It runs the program " + command.Bench.Name() + ", which is installed next to this command, or which it builds in a checkout.\n" +
			"See weir lab --help.",
	}, "lab")
}

// measures makes cmd run the measuring program weir-bench. The program receives the arguments in
// first, and then all arguments of cmd.
func measures(cmd *cobra.Command, first ...string) *cobra.Command {
	cmd.DisableFlagParsing = true // weir-bench parses them
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, done, err := command.Bench.Find(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer done()
		return command.Exec(cmd.Context(), file, append(first, args...), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}
