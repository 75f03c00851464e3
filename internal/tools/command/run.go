// Package command contains what Weir's programs share: the flags that select a cluster, readable
// errors, exit codes, and finding and running other programs.
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

// ExitCode is the error of a command that ran another program. That program ended with this code
// and has already reported the reason.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// ErrInterrupted is the cause of a command's context that an interrupt has ended. After SIGTERM the
// cause is context.Canceled.
var ErrInterrupted = errors.New("interrupted")

// Run runs the command of this process and returns the exit code that Report returns. The first
// interrupt or SIGTERM ends the command's context, and the second signal ends the process. With
// --log-format json, Run writes each line on stderr as a JSON object.
func Run(execute func(context.Context) error) int {
	ctx, stop := untilSignal()
	defer stop()

	// Discard the logs of libraries: they repeat weir's own messages or do not help the user. The
	// proxy sets its own logger.
	klog.SetLogger(logr.Discard())

	if logsJSON(os.Args[1:]) {
		flush, err := jsonStderr()
		if err != nil {
			return Report(os.Stderr, err)
		}
		defer flush()
	}
	return Report(os.Stderr, execute(ctx))
}

// Report writes the error of a command to w, on one line, and returns the command's exit code: 1
// for a failure, and 2 for a UsageError. For an ExitCode it writes nothing and returns that code.
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

// untilSignal returns a context that ends with the first SIGTERM or interrupt. The second signal
// ends the process. Until stop is called, one goroutine waits for the first signal.
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

// VersionInfo is the output of `weir version -o json`.
type VersionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	ClientGo string `json:"clientgo"`
	Platform string `json:"platform"`
}

// ReadVersion returns the versions of this program, its Go toolchain and its client-go.
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
