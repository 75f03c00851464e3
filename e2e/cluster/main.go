package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Main runs the tests of a package that share a cluster, and returns the exit code for its
// TestMain. start starts the cluster within limit. If start fails after the cluster runs, it must
// return the cluster and the error. Main keeps the servers' logs if a test fails.
func Main(m *testing.M, limit time.Duration, start func(ctx context.Context) (*Cluster, error)) int {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	c, err := start(ctx)
	cancel()
	code := 1
	if err == nil {
		code = m.Run()
	}
	if c != nil {
		if code != 0 {
			LogToStderr("the servers' logs are in %s", c.KeepLogs())
		}
		if stopErr := c.Stop(); err == nil {
			err = stopErr
		}
	}
	if err != nil {
		LogToStderr("%v", err)
		return 1
	}
	return code
}

// LogToStderr prints a line on standard error. It serves as Options.Logf in a TestMain, which has
// no test log.
func LogToStderr(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Leaks returns the options with which a test checks for leaked goroutines. They ignore goroutines
// that run now, and those of an API server that the test restarts, since it serves the next test
// too.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreAnyFunction("github.com/weirproject/weir/e2e/cluster.(*Cluster).watchOver.func1"),
	}
}

// HTTPClient returns a client for cfg. When the test ends, it closes the idle connections of this
// client and of all clients with an equal configuration.
func HTTPClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// Also finds wrapped transports.
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	return client
}

// Begin returns the context of a test, which ends after limit. When the test has ended, Begin
// closes the idle connections that the clients of the cluster's configuration share, and checks
// that the test has left no goroutine except ignored ones. A connection becomes idle only a moment
// after its last request was cancelled or its last response was read, so the check is repeated.
func (c *Cluster) Begin(t *testing.T, limit time.Duration, ignored ...goleak.Option) context.Context {
	t.Helper()
	leaks := append(Leaks(), ignored...)
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(func() {
		cancel()
		for range 5 {
			utilnet.CloseIdleConnectionsFor(client.Transport)
			if err = goleak.Find(leaks...); err == nil {
				return
			}
		}
		t.Error(err)
	})
	return ctx
}
