package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// URL is the address of the API server. It stays the same when the API server is started again.
func (c *Cluster) URL() string {
	return "https://" + net.JoinHostPort(loopback, strconv.Itoa(c.port))
}

// KillAPIServer kills the API server, as a crash would, and returns when it is gone. Its connections break.
func (c *Cluster) KillAPIServer() {
	c.mu.Lock()
	p := c.apiserver
	c.apiserver = nil
	c.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// StartAPIServer starts the API server again after KillAPIServer, on the same port and with the same certificate
// and tokens, and waits until it is ready. Its watch cache begins anew: a WATCH from a resourceVersion older than what
// it was filled with gets 410.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if c.runningAPIServer() {
		return errors.New("cluster: the API server runs already")
	}
	if p, err := c.tryAPIServer(ctx); err != nil {
		if p != nil {
			p.kill()
		}
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

func (c *Cluster) runningAPIServer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiserver != nil
}

func (c *Cluster) startAPIServerOnFreePort(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		c.port = port
		p, err := c.tryAPIServer(ctx)
		if err == nil || p == nil {
			return err
		}
		p.kill()
		if !p.portTaken() || attempt == portAttempts {
			return err
		}
	}
}

// tryAPIServer returns the process also when it did not become ready.
func (c *Cluster) tryAPIServer(ctx context.Context) (*process, error) {
	key := filepath.Join(c.dir, serviceAccountKeyFile)
	certs := filepath.Join(c.dir, certDir)
	args := append([]string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=" + loopback,
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none", // an Endpoints object may not point to loopback
		"--secure-port=" + strconv.Itoa(c.port),
		"--cert-dir=" + certs,
		"--token-auth-file=" + filepath.Join(c.dir, tokenFile),
		"--authorization-mode=" + string(c.options.Authorization),
		"--service-account-issuer=" + c.URL(),
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.0.0.0/16",
		"--disable-admission-plugins=ServiceAccount",
	}, c.options.APIServerArgs...)
	var env []string
	if c.options.MemoryLimit != "" {
		env = append(env, "GOMEMLIMIT="+c.options.MemoryLimit)
	}
	p, err := startProcess(c.binaries.APIServer, args, env, filepath.Join(c.dir, "kube-apiserver.log"))
	if err != nil {
		return nil, err
	}
	// The certificate is the server's own, and there is none to check it against before it has been made.
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer insecure.CloseIdleConnections()
	err = p.waitReady(ctx, &http.Client{Transport: insecure}, c.URL()+"/readyz", c.credentials.tokens[adminName])
	if err != nil {
		return p, err
	}
	if c.caData == nil {
		if c.caData, err = os.ReadFile(filepath.Join(certs, "apiserver.crt")); err != nil {
			return p, fmt.Errorf("reading the API server's certificate: %w", err)
		}
	}
	c.mu.Lock()
	c.apiserver = p
	c.mu.Unlock()
	c.watchOver(p)
	return p, nil
}
