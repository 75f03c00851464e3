package main

import (
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
)

// demoChurn is the number of pods that an embedded server changes per second if a command starts
// the server only for a demonstration.
const demoChurn = 5

// cluster is the server that a command uses.
type cluster struct {
	config    *rest.Config
	namespace string // from the kubeconfig or -n
	embedded  bool
	pods      int // of the embedded server
	close     func() error
}

// open opens the cluster that the flags c select. If embedded > 0, it instead starts an embedded
// server with that number of pods and a steady churn. If open must first build that server's
// program, it reports the build on log.
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

// embeddedServer is a running embedded API server. The server is a separate program because it
// links the Go types of all built-in kinds, which most commands do not need.
type embeddedServer struct {
	*process.Server
	remove func() // removes the server's program if startEmbedded built it
}

// startEmbedded starts an embedded API server. The server runs until Close is called, ctx ends or
// this process ends. If startEmbedded must first build the server's program, it reports the build
// on log.
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

// writeKubeconfig writes a kubeconfig for clients of the server to a file, which it replaces. Only
// the owner can read a new file; an existing one keeps its mode.
func (e *embeddedServer) writeKubeconfig(path string) error {
	const name = "embedded"
	cfg, out := e.Config(), clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.WriteToFile(*out, path)
}

// Close stops the server and waits until it has ended.
func (e *embeddedServer) Close() error {
	defer e.remove()
	return e.Server.Close()
}
