package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const etcdDataDir = "etcd"

// startEtcd starts etcd on free ports and waits until it is ready.
func (c *Cluster) startEtcd(ctx context.Context) error {
	err := onFreePort(func() error {
		if err := c.chooseEtcdPorts(); err != nil {
			return err
		}
		return c.runEtcd(ctx)
	})
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{c.etcdURL},
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return fmt.Errorf("connecting to etcd: %w", err)
	}
	c.etcdClient = client
	return nil
}

func (c *Cluster) chooseEtcdPorts() error {
	clientPort, err := freePort()
	if err != nil {
		return err
	}
	peerPort, err := freePort()
	c.etcdURL, c.etcdPeerURL = httpURL(clientPort), httpURL(peerPort)
	return err
}

// runEtcd starts etcd on the ports that startEtcd chose, and waits until it is ready.
func (c *Cluster) runEtcd(ctx context.Context) error {
	args := append([]string{
		"--name=weir",
		"--data-dir=" + c.path(etcdDataDir),
		"--listen-client-urls=" + c.etcdURL,
		"--advertise-client-urls=" + c.etcdURL,
		"--listen-peer-urls=" + c.etcdPeerURL,
		"--initial-advertise-peer-urls=" + c.etcdPeerURL,
		"--initial-cluster=weir=" + c.etcdPeerURL,
		"--unsafe-no-fsync",
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
		"--log-level=warn",
	}, c.options.EtcdArgs...)
	p, err := startServer(c.binaries.Etcd, args, nil, filepath.Join(c.dir, "etcd.log"), func(p *Program) error {
		return p.waitReady(ctx, http.DefaultClient, c.etcdURL+"/readyz", "")
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.etcd = p
	c.mu.Unlock()
	c.watchOver(p)
	return nil
}

// EtcdURL returns the address of etcd, which requires no credentials.
func (c *Cluster) EtcdURL() string { return c.etcdURL }

func httpURL(port int) string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(port))
}
