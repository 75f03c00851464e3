// Package cluster runs a real kube-apiserver on a real etcd, on loopback and in a temporary
// directory, for end-to-end tests and measurements. It builds both programs from their Go modules
// the first time (see Build), and needs nothing else. It runs on Unix. BuildClients and
// StartProgram do the same for kube-controller-manager, kube-scheduler and kubectl.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/populations"
)

// Authorization is an authorization mode of kube-apiserver.
type Authorization string

const (
	AlwaysAllow Authorization = "AlwaysAllow"
	RBAC        Authorization = "RBAC"
)

// User is a user who can authenticate to the cluster.
type User struct {
	Name   string
	Groups []string
}

// Pods are the pods that a cluster has from the start, usually a *podsim.Pods. The methods must be
// safe for concurrent use.
type Pods interface {
	Len() int
	Pod(i int) *corev1.Pod // 0 ≤ i < Len; the caller owns the result
	Namespaces() []string  // all namespaces of the pods
}

// Options configure a cluster. The zero value is a good default.
type Options struct {
	// Authorization is the authorization mode, AlwaysAllow if it is empty.
	Authorization Authorization
	// Users are the users who can authenticate, in addition to the admin. ConfigFor returns the
	// configuration of one of them.
	Users []User
	// APIServerArgs and EtcdArgs are additional flags for the two servers. They come last, so they
	// override the default flags.
	APIServerArgs []string
	EtcdArgs      []string
	// MemoryLimit is the GOMEMLIMIT of kube-apiserver, such as "3GiB".
	MemoryLimit string
	// EtcdOnly omits the API server. Methods that need one, such as Config, then panic.
	EtcdOnly bool
	// Pods, if set, are written to etcd before the API server starts, which is faster than LoadPods
	// afterwards.
	Pods Pods
	// Kinds are objects of other kinds, which are also written to etcd before the API server starts.
	// They are ignored without Pods. Their namespaces must be namespaces of Pods or of the system.
	Kinds []populations.Kind
	// Logf, if set, receives progress messages.
	Logf func(format string, args ...any)
}

// Cluster is a running etcd with a kube-apiserver in front of it. Its methods are safe for
// concurrent use, except that calls of KillAPIServer, StartAPIServer, Expire, Backup, Restore and
// Stop must not overlap each other.
type Cluster struct {
	options     Options
	binaries    Binaries
	dir         string
	credentials *credentials
	etcdURL     string
	etcdPeerURL string
	etcdClient  *clientv3.Client

	mu       sync.Mutex
	etcd     *process
	servers  []*APIServer
	keepLogs bool
	stopped  bool

	died     chan struct{} // closed when a server exits without Kill
	diedErr  error
	diedOnce sync.Once
}

// startTimeout bounds how long each server may take to be ready.
const startTimeout = 3 * time.Minute

// Start builds the servers if necessary, starts them, and waits until the API server is ready. The
// caller must call Stop. The servers die with this process, however it ends (on Linux; on other
// systems they survive a SIGKILL of this process). ctx bounds only Start itself.
//
// If Start fails, the error ends with the last lines of the failing server's log, and names the
// directory of the logs.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if options.Authorization == "" {
		options.Authorization = AlwaysAllow
	}
	if options.Logf == nil {
		options.Logf = func(string, ...any) {}
	}
	binaries, err := Build(ctx, options.Logf)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-cluster-")
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{options: options, binaries: binaries, dir: dir, died: make(chan struct{})}
	if err := c.start(ctx); err != nil {
		err = fmt.Errorf("cluster: %w", err)
		if ctx.Err() == nil {
			err = fmt.Errorf("%w\nthe logs are kept in %s", err, c.KeepLogs())
		}
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) (err error) {
	if c.credentials, err = newCredentials(c.dir, c.options.Users); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if c.options.EtcdOnly {
		return nil
	}
	if c.options.Pods == nil {
		_, err := c.AddAPIServer(ctx)
		return err
	}
	newest, err := c.putObjects(ctx, c.options.Pods)
	if err != nil {
		return err
	}
	if err := c.putKinds(ctx, c.options.Kinds); err != nil {
		return err
	}
	if _, err := c.AddAPIServer(ctx); err != nil {
		return err
	}
	return c.waitForCache(ctx, c.options.Pods, newest)
}

// Wait waits until ctx ends, until a server has died without being killed on purpose, or until
// Stop. It returns nil if ctx ended.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.died:
		return c.diedErr
	}
}

// KeepLogs makes Stop keep the logs of the servers, and returns their directory.
func (c *Cluster) KeepLogs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLogs = true
	return c.dir
}

// Stop kills the servers immediately and removes all files that they wrote, except the logs if
// KeepLogs was called. Later calls do nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	keep, etcd := c.keepLogs, c.etcd
	c.mu.Unlock()

	var errs []error
	if c.etcdClient != nil {
		errs = append(errs, c.etcdClient.Close())
	}
	for _, s := range c.APIServers() {
		s.Kill()
	}
	if etcd != nil {
		etcd.kill()
	}
	c.fail(errors.New("cluster: it was stopped"))
	remove := []string{c.dir}
	if keep {
		remove = []string{filepath.Join(c.dir, etcdDataDir), filepath.Join(c.dir, backupDir), filepath.Join(c.dir, certDir), filepath.Join(c.dir, tokenFile),
			filepath.Join(c.dir, serviceAccountKeyFile)}
	}
	for _, path := range remove {
		errs = append(errs, os.RemoveAll(path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cluster: stopping: %w", err)
	}
	return nil
}

// watchOver makes Wait fail when p exits without having been killed on purpose.
func (c *Cluster) watchOver(p *process) {
	go func() {
		<-p.exited
		if !p.killed.Load() {
			c.fail(fmt.Errorf("cluster: %w", p.failure()))
		}
	}()
}

func (c *Cluster) fail(err error) {
	c.diedOnce.Do(func() {
		c.diedErr = err
		close(c.died)
	})
}
