// Command weir follows Kubernetes resources with Weir's informer, serves a simulated cluster, runs
// the proxy, finds clients that load an API server, and compares the informer with client-go's.
//
// Data goes to stdout, progress and errors to stderr. The exit code is 1 for a failure and 2 for
// wrong usage.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/tools/command"
)

func main() { os.Exit(run()) }

// run runs the command of this process and returns its exit code.
func run() int {
	root := newRoot()
	if calledAs(completesPlugin) {
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...))
	}
	return command.Run(root.ExecuteContext)
}

// The names of this program as a plugin of kubectl. kubectl calls the second one for the words that
// complete a line which starts with "kubectl weir".
const (
	plugin          = "kubectl-weir"
	completesPlugin = "kubectl_complete-weir"
)

// calledAs reports whether the program's file has the name.
func calledAs(name string) bool {
	return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == name
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Follow Kubernetes resources without spikes",
		Long: "Weir keeps a local copy of Kubernetes objects current and reports their changes, while memory, CPU and request rate\n" +
			"stay level. This command demonstrates it.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknown(cmd, args[0])
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:                    versionText(command.ReadVersion()),
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return command.FlagError(cmd.CommandPath(), err) })
	command.AddLogFormat(root.PersistentFlags())
	root.SetHelpCommand(newHelp())
	root.AddCommand(newWatch(), newServe(), newProxy(), newBench(), newLab(), newDoctor(), newMigrate(), newVersion())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args = oneShell
		completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if calledAs(plugin) || calledAs(completesPlugin) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weir"}
		for _, cmd := range root.Commands() {
			name := strings.NewReplacer("weir "+cmd.Name(), "kubectl weir "+cmd.Name())
			cmd.Example, cmd.Long = name.Replace(cmd.Example), name.Replace(cmd.Long)
		}
	}
	return root
}

// oneShell returns a usage error for a shell that the command completion does not support. The
// supported ones are commands of it.
func oneShell(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return command.Usagef("%s: no completion for the shell %q; there is one for bash, zsh, fish and powershell", cmd.CommandPath(), args[0])
	}
	return nil
}

// unknown returns a usage error for a name that is not a command of root.
func unknown(root *cobra.Command, name string) error {
	if like := root.SuggestionsFor(name); len(like) > 0 {
		return command.Usagef("unknown command %q; did you mean %s?", name, strings.Join(like, " or "))
	}
	return command.Usagef("unknown command %q; see %s --help", name, root.CommandPath())
}

// newHelp returns a help command like cobra's, except that it fails for an unknown command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || of == cmd.Root() && len(rest) > 0 {
				return unknown(cmd.Root(), args[0])
			}
			return of.Help()
		},
	}
}
