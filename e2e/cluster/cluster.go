// Package cluster runs a real kube-apiserver and a real etcd, for end-to-end tests and
// measurements. Both servers listen on loopback, and store their files in a temporary directory.
// The package builds both programs from their Go modules (see Build), and requires only the go
// command. It runs on Unix. BuildClients and StartProgram build and run kube-controller-manager,
// kube-scheduler and kubectl.
package cluster

import (
	"cmp"
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
	Pod(i int) *corev1.Pod // 0 ≤ i < Len; the caller owns the pod
	Namespaces() []string  // the namespaces of all pods
}

// Options configure a cluster. The zero value runs one API server, which allows every request,
// without pods.
type Options struct {
	// Authorization is the authorization mode. The default is AlwaysAllow.
	Authorization Authorization
	// Users are users that can authenticate, in addition to the admin. ConfigFor returns the client
	// configuration of a user.
	Users []User
	// APIServerArgs and EtcdArgs are additional command line flags of the two servers. They follow the
	// default flags, and override them.
	APIServerArgs []string
	EtcdArgs      []string
	// MemoryLimit is the environment variable GOMEMLIMIT of kube-apiserver, such as "3GiB". If it is
	// empty, kube-apiserver gets this process's GOMEMLIMIT.
	MemoryLimit string
	// EtcdOnly starts only etcd. Methods that need the first API server, such as Config, then panic.
	EtcdOnly bool
	// Pods are written to etcd before the API server starts. This is faster than a later call of
	// LoadPods. If Pods is nil, the cluster starts without pods.
	Pods Pods
	// Kinds are objects of other kinds, which are also written to etcd before the API server starts.
	// They are ignored if Pods is nil. A namespaced object must be in a namespace of Pods or in a
	// system namespace, such as kube-system.
	Kinds []populations.Kind
	// Logf receives progress messages. If it is nil, they are dropped.
	Logf func(format string, args ...any)
}

// Cluster is a running etcd and its API servers. Its methods are safe for concurrent use. One
// exception: calls of KillAPIServer, StartAPIServer, Expire, Backup, Restore and Stop must not
// overlap.
type Cluster struct {
	options     Options
	binaries    Binaries
	dir         string
	tokens      map[string]string // of the users, by name
	etcdURL     string
	etcdPeerURL string
	etcdClient  *clientv3.Client

	mu       sync.Mutex
	etcd     *Program
	servers  []*APIServer
	keepLogs bool
	stopped  bool

	died     chan struct{} // closed when a server exits without being killed, and by Stop
	diedErr  error
	diedOnce sync.Once
}

// startTimeout bounds the time until a server is ready.
const startTimeout = 3 * time.Minute

// Start builds the servers if necessary, starts them, and waits until the API server is ready. The
// caller must call Stop. ctx bounds only Start itself. On Linux, the servers die with this process.
// On other systems, they survive a SIGKILL of this process.
//
// If a server does not become ready, the error contains the last lines of that server's log. It
// also names the directory of the logs, which Start keeps. If ctx has ended, the error contains
// neither.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options.Authorization = cmp.Or(options.Authorization, AlwaysAllow)
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
	if c.tokens, err = newCredentials(c.dir, c.options.Users); err != nil {
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

// Wait waits until ctx ends, a server exits that the cluster has not killed, or Stop is called. It
// returns nil if ctx ended, and otherwise an error.
func (c *Cluster) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.died:
		return c.diedErr
	}
}

// KeepLogs makes Stop keep the servers' logs. It returns their directory.
func (c *Cluster) KeepLogs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepLogs = true
	return c.dir
}

// Stop kills the servers and removes their files. It keeps the logs if KeepLogs was called. Later
// calls are no-ops.
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
		etcd.Stop()
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

// watchOver makes Wait return an error when p exits, unless the cluster has killed p.
func (c *Cluster) watchOver(p *Program) {
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
