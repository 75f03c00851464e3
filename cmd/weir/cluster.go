package main

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
)

// demoChurn is how many pods of the embedded server change per second when it runs only for a
// demonstration.
const demoChurn = 5

// cluster is the server to use.
type cluster struct {
	config    *rest.Config
	namespace string // from the kubeconfig or -n
	embedded  bool
	pods      int // of the embedded server
	close     func() error
}

// open opens the cluster that flags choose. With embedded > 0 it starts an embedded server with
// that many pods and a steady churn instead. If that server must be built first, open writes that
// to log.
func open(ctx context.Context, log io.Writer, c *command.ClusterFlags, embedded int) (*cluster, error) {
	if embedded > 0 {
		server, err := startEmbedded(ctx, log, process.ServerSpec{Pods: embedded, Churn: demoChurn, Seed: 1})
		if err != nil {
			return nil, fmt.Errorf("start the embedded server: %w", err)
		}
		return &cluster{
			config: command.Prepared(server.Config()), namespace: c.Overrides.Context.Namespace, embedded: true, pods: embedded, close: server.Close,
		}, nil
	}
	cfg, err := c.RestConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := c.Loader().Namespace()
	if err != nil {
		return nil, err
	}
	return &cluster{config: cfg, namespace: namespace, close: func() error { return nil }}, nil
}

// embeddedServer is a running embedded API server. It is a separate program, because most commands
// do not need it, and it links the Go types of all built-in kinds.
type embeddedServer struct {
	*process.Server
	remove func() // removes the program that was built for it
}

// startEmbedded starts an embedded API server, which ends with Close, with ctx or with this
// process. If its program must be built first, it writes that to log.
func startEmbedded(
	ctx context.Context, log io.Writer, spec process.ServerSpec,
) (*embeddedServer, error) {
	file, remove, err := command.Serve.Find(ctx, log)
	if err != nil {
		return nil, err
	}
	server, err := process.StartServerProgram(ctx, file, spec)
	if err != nil {
		remove()
		return nil, err
	}
	return &embeddedServer{server, remove}, nil
}

// Close ends the server and waits for its end.
func (e *embeddedServer) Close() error {
	defer e.remove()
	return e.Server.Close()
}
