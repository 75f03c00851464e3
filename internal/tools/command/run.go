// Package command is shared by Weir's programs: the flags that choose a cluster, readable errors,
// exit codes, and finding other programs.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
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
// reported why.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrInterrupted is the cause of a command's context if an interrupt, not SIGTERM, has ended it.
var ErrInterrupted = errors.New("interrupted")

// Run runs the command of this process and returns its exit code, see Report. The first interrupt
// or SIGTERM ends the command's context, a second one the process.
func Run(execute func(context.Context) error) int {
	ctx, stop := untilSignal()
	defer stop()

	// Libraries' logs either repeat our own messages or do not help the user. The proxy sets its own
	// logger.
	klog.SetLogger(logr.Discard())

	return Report(os.Stderr, execute(ctx))
}

// Report writes the error of a command to w, on one line, and returns the command's exit code: 1
// for a failure, 2 for a UsageError, and an ExitCode unchanged.
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

// VersionInfo is the output of `version -o json`.
type VersionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	ClientGo string `json:"clientgo"`
	Platform string `json:"platform"`
}

// ReadVersion returns the versions from which this program was built.
func ReadVersion() VersionInfo {
	v := VersionInfo{
		Version:  "(devel)",
		Go:       runtime.Version(),
		ClientGo: "unknown",
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if b.Main.Version != "" {
		v.Version = b.Main.Version
	}
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, m := range b.Deps {
		if m.Path == "k8s.io/client-go" {
			v.ClientGo = m.Version
		}
	}
	return v
}
