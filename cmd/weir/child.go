package main

import (
	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/child"
	"github.com/weirproject/weir/internal/childserver"
	"github.com/weirproject/weir/internal/command"
)

// newChild is what this command runs itself as, for its embedded server.
func newChild() *cobra.Command {
	return &cobra.Command{
		Use:    child.Verb + " ROLE",
		Short:  "Not for people: a child process of weir",
		Hidden: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != childserver.Role {
				return command.Usagef("%s takes the ROLE %s", cmd.CommandPath(), childserver.Role)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return childserver.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
