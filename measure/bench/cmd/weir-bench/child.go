package main

import (
	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// newChild returns the hidden command with which this program runs itself as a child, for servers
// and for the sides of a measurement.
func newChild() *cobra.Command {
	flags := command.NewClusterFlags()
	cmd := &cobra.Command{
		Use:    process.Verb + " ROLE",
		Short:  "A child process that weir starts; not for direct use",
		Hidden: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("%s needs one ROLE", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return informers.Serve(cmd.Context(), args[0], flags.RestConfig, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().AddFlagSet(flags.Flags)
	return cmd
}
