// Command weir-bench measures weir's informer and client-go's, and weir's proxy and kube-apiserver.
// It also replays incidents on them. `weir bench` and `weir lab` run it.
//
// Data goes to stdout, progress and errors to stderr. The exit code is 1 for a failure and 2 for
// wrong usage.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
)

func main() { os.Exit(run()) }

// run runs the command of this process and returns its exit code.
func run() int { return command.Run(newRoot().ExecuteContext) }

func newRoot() *cobra.Command {
	root, name := newBench(), "weir bench" // the name that users type
	if len(os.Args) > 1 && os.Args[1] == labName {
		root, name = &cobra.Command{Use: "weir"}, "weir" // lab has none of bench's flags
		root.AddCommand(newLab())
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions = cobra.CompletionOptions{HiddenDefaultCmd: true}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.FlagError(cmd.CommandPath(), err) })
	command.AddLogFormat(root.PersistentFlags())
	root.AddCommand(newChild())
	return root
}
