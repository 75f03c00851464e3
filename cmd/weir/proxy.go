package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
)

func newProxy() *cobra.Command {
	return &cobra.Command{
		Use:   "proxy",
		Short: "Run a caching proxy in front of kube-apiserver",
		Long: "Proxy sends one LIST and one WATCH per resource to kube-apiserver, and answers the LISTs, WATCHes and GETs of all clients\n" +
			"from its copy, with each caller's own permissions. It forwards all other requests. If no cluster is configured, its\n" +
			"upstream is an embedded API server. It runs the program " + command.Proxy.Name() + ", which is installed next to this command, or\n" +
			"which it builds in a checkout. See weir proxy --help.",
		DisableFlagParsing: true, // weir-proxy parses them
		RunE:               func(cmd *cobra.Command, args []string) error { return runProxy(cmd, args) },
	}
}

func runProxy(cmd *cobra.Command, args []string) error {
	path, done, err := command.Proxy.Find(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer done()
	if wantsUpstream(args) {
		// Report wrong arguments before starting anything for them. --check-arguments is the first
		// argument, because it would not be a flag after a "--".
		check := append([]string{"--check-arguments"}, args...)
		if err := command.Exec(cmd.Context(), path, check, io.Discard, cmd.ErrOrStderr()); err != nil {
			return err
		}
		more, stop, err := demoUpstream(cmd, args)
		if err != nil {
			return err
		}
		defer stop()
		args = append(more, args...)
	}
	return command.Exec(cmd.Context(), path, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// wantsUpstream reports whether the proxy needs an embedded server as its upstream: no flag selects
// a cluster, and no cluster is configured. It ignores errors in the configuration, which the proxy
// itself reports.
func wantsUpstream(args []string) bool {
	chooses := []string{"--kubeconfig", "--context", "--cluster", "--server", "--help", "-h", "--version", "help"}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		short := strings.HasPrefix(arg, "-s") // also -shttps://host
		if short || slices.Contains(chooses, name) {
			return false
		}
	}
	configured, err := command.NewClusterFlags().Configured()
	return !configured && err == nil
}

// demoUpstream starts an embedded API server, and returns the arguments that make the proxy use
// that server. The arguments also contain flags that make the proxy cache the server's pods and
// write a kubeconfig for its clients. args take precedence: a flag in args is not added again. The
// caller calls stop after the proxy has ended.
func demoUpstream(cmd *cobra.Command, args []string) (more []string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "weir-proxy-")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(cmd.Context())) // the proxy ends first
	remove := func() {
		cancel()
		os.RemoveAll(dir)
	}
	server, err := startEmbedded(ctx, cmd.ErrOrStderr(), process.ServerSpec{Pods: demoPods, Churn: demoChurn, Seed: 1})
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("start the embedded server: %w", err)
	}
	stop = func() {
		_ = server.Close() // ignore the error: the server has no data to lose
		remove()
	}
	upstream, client := filepath.Join(dir, "upstream"), filepath.Join(dir, "kubeconfig")
	if err := server.writeKubeconfig(upstream); err != nil {
		stop()
		return nil, nil, err
	}
	// The embedded server publishes no CAs.
	more = []string{"--kubeconfig=" + upstream, "--authentication-skip-lookup"}
	if _, ok := flagValue(args, "--resources"); !ok {
		more = append(more, "--resources=pods")
	}
	if file, ok := flagValue(args, "--write-kubeconfig"); ok {
		client = file
	} else {
		more = append(more, "--write-kubeconfig="+client)
	}
	// With -o name, kubectl does not request a Table, which only the upstream can answer.
	fmt.Fprintf(cmd.ErrOrStderr(), "no cluster is configured; the upstream is an embedded API server with %s pods; "+
		"try: kubectl --kubeconfig %s get pods -A --watch -o name\n", humanize.Count(demoPods), client)
	return more, stop, nil
}

// flagValue returns the value of a flag, and reports whether the flag is among the arguments.
func flagValue(args []string, flag string) (string, bool) {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			return value, true
		}
		if arg == flag && i+1 < len(args) {
			return args[i+1], true
		}
	}
	return "", false
}
