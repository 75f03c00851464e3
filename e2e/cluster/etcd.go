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

// startEtcd starts etcd on a free port and waits until it is ready.
func (c *Cluster) startEtcd(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		if err := c.chooseEtcdPorts(); err != nil {
			return err
		}
		p, err := c.tryEtcd(ctx)
		if err == nil {
			c.etcd = p
			c.watchOver(p)
			break
		}
		if p == nil {
			return err
		}
		p.kill()
		if !p.portTaken() || attempt == portAttempts {
			return err
		}
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

// tryEtcd starts etcd and waits until it is ready. It returns the process also if that did not
// become ready.
func (c *Cluster) tryEtcd(ctx context.Context) (*process, error) {
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
	p, err := startProcess(c.binaries.Etcd, args, nil, filepath.Join(c.dir, "etcd.log"))
	if err != nil {
		return nil, err
	}
	return p, p.waitReady(ctx, http.DefaultClient, c.etcdURL+"/readyz", "")
}

// EtcdURL returns the address of etcd, which requires no credentials.
func (c *Cluster) EtcdURL() string { return c.etcdURL }

func httpURL(port int) string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(port))
}
