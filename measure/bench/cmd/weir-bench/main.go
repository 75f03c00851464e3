// Command weir-bench measures weir's informer against client-go's, and weir's proxy against
// kube-apiserver, and replays incidents side by side. `weir bench` runs it, and `weir lab`.
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

// run runs the command that this process was started with and returns its exit code.
func run() int { return command.Run(newRoot().ExecuteContext) }

func newRoot() *cobra.Command {
	root, name := newBench(), "weir bench" // as people call it
	if len(os.Args) > 1 && os.Args[1] == labName {
		root, name = &cobra.Command{Use: "weir"}, "weir" // none of bench's flags are lab's
		root.AddCommand(newLab())
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions = cobra.CompletionOptions{HiddenDefaultCmd: true}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.FlagError(cmd.CommandPath(), err) })
	root.AddCommand(newChild())
	return root
}
