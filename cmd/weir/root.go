package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// The exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is an error of whoever typed the command, not of the world.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run runs the command that this process was started with and returns its exit code.
func run() int {
	// The first interrupt ends what runs in good order; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()

	// What a library would log is either in our own messages already or of no use to whoever types the command.
	klog.SetLogger(logr.Discard())

	err := newRoot().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "error: %s\n", oneLine(err))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailure
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Follow Kubernetes resources without spikes",
		Long: "Weir keeps a live, local copy of Kubernetes objects and tells you when they change, at level memory, CPU and\n" +
			"request rate. This command shows it at work.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	if filepath.Base(os.Args[0]) == "kubectl-weir" {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weir"}
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newWatch(), newServe(), newProxy(), newBench(), newSide(), newVersion())
	return root
}

// noArgs is cobra's, as an error of usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// oneLine puts an error on one line.
func oneLine(err error) string { return oneLineText(err.Error()) }

func oneLineText(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")), " ")
}
