// Command weir-serve is the embedded API server of `weir serve`. If no cluster is configured, `weir
// watch` and `weir proxy` use it too. Each of these commands runs weir-serve as a child process
// that ends with the command. weir-serve is a separate command because it links the Go types of all
// built-in kinds, which would make weir a quarter larger.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/embedded"
	"github.com/weirproject/weir/internal/tools/process"
)

func main() { os.Exit(command.Run(newRoot().ExecuteContext)) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir-serve",
		Short: "Run the embedded API server of weir",
		Long: "Weir starts weir-serve to run its embedded API server. To start a server yourself, use `weir serve`.\n" +
			"Install weir-serve next to weir, or in the path.",
		Args:              command.NoArgs[*cobra.Command],
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:           command.ReadVersion().Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return command.FlagError(cmd.CommandPath(), err)
	})
	command.AddLogFormat(root.PersistentFlags())
	root.AddCommand(newChild())
	return root
}

// newChild returns the hidden command that weir uses to run this program.
func newChild() *cobra.Command {
	return &cobra.Command{
		Use:    process.Verb + " ROLE",
		Short:  "A child process that weir starts; not for direct use",
		Hidden: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != process.ServerRole {
				return command.Usagef("%s needs the ROLE %s", cmd.CommandPath(), process.ServerRole)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return embedded.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
