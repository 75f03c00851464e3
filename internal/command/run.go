// Package command is what Weir's programs have in common: the flags that choose a cluster, errors
// that people read, exit codes, and how one program finds another.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// The exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

// ExitCode is the error of a command that ran another program, which ended with this code and has
// said why.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Run runs the command that this process was started with and returns its exit code: 1 for a
// failure, 2 for a UsageError, an ExitCode as it is. The first interrupt ends the command's
// context, a second one the process.
func Run(execute func(context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()

	// What a library would log is either in our own messages already or of no use to whoever types
	// the command.
	klog.SetLogger(logr.Discard())

	err := execute(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[ExitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "error: %s\n", OneLine(err))
	if errors.As(err, new(UsageError)) {
		return exitUsage
	}
	return exitFailure
}
