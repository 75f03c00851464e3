// Command weir-proxy is a caching proxy in front of kube-apiserver; `weir proxy` runs it. It is a
// command of its own because the libraries that ask an API server about its callers would add to
// the memory of every other command.
//
// Its address goes to stdout, its log to stderr. The exit code is 1 for a failure and 2 for wrong
// usage.
package main

import (
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/proxy"
)

func main() {
	if os.Getenv("GOGC") == "" {
		boundGarbage()
	}
	os.Exit(command.Run(newCommand().ExecuteContext))
}

// explain makes an error of package proxy one of the command: a UsageError if the options are
// invalid.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, proxy.ErrInvalidOptions) {
		return command.Usage(unprefixed{err})
	}
	return unprefixed{err}
}

// unprefixed is an error without the name of package proxy before its text.
type unprefixed struct{ err error }

func (e unprefixed) Error() string {
	return strings.TrimPrefix(strings.TrimPrefix(e.err.Error(), "proxy: "), "options: ")
}
func (e unprefixed) Unwrap() error { return e.err }

// newLog returns the log of the proxy, and has the libraries under it write to that.
func newLog(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	klog.SetLogger(logr.FromSlogHandler(handler))
	return slog.New(handler)
}
