package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Main runs the tests of a package that share a cluster. It returns the exit code for TestMain. It
// calls the function start, whose context ends after limit; start must have started the cluster by
// then. If start fails after the cluster was started, it must return both the cluster and the
// error. Main stops the cluster after the tests. It keeps the servers' logs if a test or start
// fails.
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
		err = errors.Join(err, c.Stop())
	}
	if err != nil {
		LogToStderr("%v", err)
		return 1
	}
	return code
}

// LogToStderr prints a line to standard error. A TestMain uses it as Options.Logf, because a
// TestMain has no test log.
func LogToStderr(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Leaks returns options for the check for leaked goroutines at the end of a test. They ignore two
// groups of goroutines: goroutines that already run now, and goroutines that wait for the process
// of an API server that the test restarts. The restarted server also serves the next test.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreAnyFunction("github.com/weirproject/weir/e2e/cluster.(*Cluster).watchOver.func1"),
	}
}

// HTTPClient returns a client for cfg. When the test ends, the idle connections of the client are
// closed. Clients with an equal configuration share these connections.
func HTTPClient(t *testing.T, cfg *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// This function unwraps wrapped transports.
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	return client
}

// Begin returns the context of a test, which ends after limit or when the test ends. At the end of
// the test, Begin closes the idle connections that clients with the cluster's configuration share.
// It then checks that the test has left no goroutines, except goroutines that the options of Leaks
// or the parameter ignored allow. It repeats the check, because a connection becomes idle only a
// moment after its last request has ended.
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
