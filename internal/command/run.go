// Package command is what Weir's programs have in common: the flags that choose a cluster, errors
// that people read, exit codes, and how one program finds another.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// ErrInterrupted is the cause of a command's context that an interrupt has ended, not a SIGTERM.
var ErrInterrupted = errors.New("interrupted")

// Run runs the command that this process was started with and returns its exit code, as Report
// does. The first interrupt or SIGTERM ends the command's context, a second one the process.
func Run(execute func(context.Context) error) int {
	ctx, stop := untilSignal()
	defer stop()

	// What a library would log is either in our own messages already or of no use to whoever types
	// the command. The proxy sets a logger of its own.
	klog.SetLogger(logr.Discard())

	return Report(os.Stderr, execute(ctx))
}

// Report writes the error of a command to w, on one line, and returns the command's exit code: 1
// for a failure, 2 for a UsageError, an ExitCode as it is.
func Report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[ExitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(w, "error: %s\n", OneLine(err))
	if errors.As(err, new(UsageError)) {
		return exitUsage
	}
	return exitFailure
}

// untilSignal returns a context that ends with the first SIGTERM or interrupt. A second one ends
// the process. One goroutine waits for the first, until stop.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if s == os.Interrupt {
				cancel(ErrInterrupted)
			}
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
