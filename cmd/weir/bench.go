package main

import (
	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/command"
)

func newBench() *cobra.Command {
	return &cobra.Command{
		Use:   "bench",
		Short: "Measure weir's informer against client-go's",
		Long: "Bench measures weir's informer against client-go's, and weir's proxy against kube-apiserver. It runs " + command.Bench.Name() + ", which is\n" +
			"installed beside this command, or built in a checkout; see weir bench --help.",
		DisableFlagParsing: true, // they are the other program's
		RunE: func(cmd *cobra.Command, args []string) error {
			file, done, err := command.Bench.Find(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer done()
			return command.Exec(cmd.Context(), file, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}
