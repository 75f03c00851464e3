package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// proxyCommand is the program that does the work. The libraries with which it asks an API server about its callers hold more memory from
// their start than a whole `weir watch`, so they are in a program of their own.
const proxyCommand = "weir-proxy"

func newProxy() *cobra.Command {
	return &cobra.Command{
		Use:   "proxy",
		Short: "Run a caching proxy in front of kube-apiserver",
		Long: "Proxy answers LIST, WATCH and GET of everybody out of one LIST and one WATCH upstream, with each caller's own permissions,\n" +
			"and passes everything else on. It runs " + proxyCommand + ", which is installed beside this command; see weir proxy --help.",
		DisableFlagParsing: true, // they are the other program's
		RunE:               func(cmd *cobra.Command, args []string) error { return runProxy(cmd, args) },
	}
}

// exitCode is what another program ended with, after it has said why.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("%s: exit code %d", proxyCommand, int(e)) }

func runProxy(cmd *cobra.Command, args []string) error {
	path, err := findProxy()
	if err != nil {
		return err
	}
	child := exec.CommandContext(cmd.Context(), path, args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	err = child.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
		return exitCode(ended.ExitCode())
	}
	if cmd.Context().Err() != nil && child.ProcessState != nil && child.ProcessState.Success() {
		return nil // it was interrupted, and ended in good order
	}
	return err
}

// findProxy looks beside this program, then in the path.
func findProxy() (string, error) {
	name := proxyCommand
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && !info.IsDir() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this command nor in the path; install it with: "+
			"go install github.com/weirproject/weir/proxy/cmd/%s@latest", name, proxyCommand)
	}
	return path, nil
}
