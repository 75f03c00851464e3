package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/internal/testing/check"
)

// shared is the cluster that most tests use. Its authorization mode is RBAC.
var shared *Cluster

const stranger = "stranger" // a user without any permissions

// childVariable is an environment variable. If it is set, the test program starts a cluster and
// runs until it is killed. TestServersDieWithParent uses this.
const childVariable = "WEIR_CLUSTER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		startAndHang()
	}
	os.Exit(Main(m, 15*time.Minute, func(ctx context.Context) (c *Cluster, err error) {
		shared, err = Start(ctx, Options{
			Authorization: RBAC,
			Users:         []User{{Name: stranger, Groups: []string{"strangers"}}},
			Logf:          LogToStderr,
		})
		return shared, err
	}))
}

// child describes the cluster that a child process has started. The child prints it as JSON.
type child struct {
	Dir  string
	PIDs []int
}

// startAndHang is the main function of the child process.
func startAndHang() {
	c, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(child{Dir: c.dir, PIDs: []int{c.etcd.pid, c.first().process.pid}}); err != nil {
		os.Exit(1)
	}
	select {}
}

func admin(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	check.NoError(t, err)
	return client
}

// start starts a cluster for one test. When the test ends, it stops the cluster, and checks that
// the cluster's files are removed unless the logs are kept.
func start(t *testing.T, options Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), options)
	check.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the servers' logs are in", c.KeepLogs())
		}
		kept := t.Failed() || c.keepLogs
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.dir); !kept && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory is left: %v", err)
		}
	})
	return c
}
