// Command weir-proxy is a caching proxy in front of kube-apiserver; `weir proxy` runs it. It is a
// command of its own because the libraries that ask an API server about its callers would add to
// the memory of every other command.
//
// Its address goes to stdout, its log to stderr. The exit code is 1 for a failure and 2 for wrong
// usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/proxy"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(os.Args[1:], os.Stderr))
}

// gcPercent is how much of what is live may be garbage, unless GOGC says otherwise. What is live is
// packed and nearly without pointers: to look at it costs little, and what slow clients and many
// watches leave behind does not add up.
const gcPercent = 25

// usageError is an error of whoever typed the command.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// run runs the command and returns its exit code. An error is one line on stderr.
func run(args []string, stderr io.Writer) int {
	ctx, stop := untilSignal()
	defer stop()

	cmd := newCommand()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "proxy: "), "options: ")
	fmt.Fprintf(stderr, "error: %s\n", strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " "))
	if errors.As(err, new(usageError)) || errors.Is(err, proxy.ErrOptions) {
		return 2
	}
	return 1
}

// errInterrupted is the cause of a context that an interrupt has ended.
var errInterrupted = errors.New("interrupted")

// untilSignal returns a context that ends with the first SIGTERM or interrupt. A second one ends
// the process. One goroutine waits for it, until stop.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if s == os.Interrupt {
				cancel(errInterrupted)
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

// newLog is the log of the proxy and of the libraries under it.
func newLog(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	klog.SetLogger(logr.FromSlogHandler(handler))
	return slog.New(handler)
}
