package main

import (
	"github.com/spf13/cobra"

	"github.com/weirproject/weir/cmd/weir/internal/bench"
	"github.com/weirproject/weir/cmd/weir/internal/bench/servers"
	"github.com/weirproject/weir/cmd/weir/internal/child"
)

// newSide is what this command runs itself as, for servers and for the sides of a measurement.
func newSide() *cobra.Command {
	flags := newClusterFlags()
	cmd := &cobra.Command{
		Use:    child.Verb + " ROLE",
		Short:  "Not for people: a child process of weir",
		Hidden: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s takes one ROLE", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == servers.Role {
				return servers.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			}
			return bench.Serve(cmd.Context(), args[0], flags.restConfig, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().AddFlagSet(flags.flags)
	return cmd
}
