// Command weir-proxy is a caching proxy in front of kube-apiserver. `weir proxy` runs it.
// weir-proxy is a separate command because the libraries that ask an API server about callers would
// add to the memory of all other commands.
//
// It prints its address to stdout and its log to stderr. The exit code is 1 for a failure and 2 for
// wrong usage.
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

// explain returns the command's error for an error of package proxy. It is a UsageError if the
// options are invalid.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, proxy.ErrInvalidOptions) {
		return command.Usage(unprefixed{err})
	}
	return unprefixed{err}
}

// unprefixed is an error whose text lacks the prefix of package proxy.
type unprefixed struct{ err error }

func (e unprefixed) Error() string {
	return strings.TrimPrefix(strings.TrimPrefix(e.err.Error(), "proxy: "), "options: ")
}
func (e unprefixed) Unwrap() error { return e.err }

// newLog returns the log of the proxy, and configures klog to write to the same log.
func newLog(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	handler := command.LogHandler(level)
	klog.SetLogger(logr.FromSlogHandler(handler))
	return slog.New(handler)
}
