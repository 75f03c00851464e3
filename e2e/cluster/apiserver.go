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
	"sync"

	"k8s.io/client-go/rest"
)

// APIServer is one kube-apiserver of a cluster. Its methods are safe for concurrent use. One
// exception: calls of Kill and Start must not overlap.
type APIServer struct {
	cluster *Cluster
	name    string // of its log file and its certificate directory
	port    int
	caData  []byte // the server's self-signed certificate, in PEM

	mu      sync.Mutex
	process *Program // nil after Kill, until Start
}

// AddAPIServer starts another API server on the cluster's etcd, and waits until it is ready. The
// server accepts the same credentials as the first API server, and has its own certificate.
func (c *Cluster) AddAPIServer(ctx context.Context) (*APIServer, error) {
	c.mu.Lock()
	s := &APIServer{cluster: c, name: "kube-apiserver"}
	if n := len(c.servers); n > 0 {
		s.name += "-" + strconv.Itoa(n+1)
	}
	c.servers = append(c.servers, s)
	c.mu.Unlock()
	err := onFreePort(func() (err error) {
		if s.port, err = freePort(); err != nil {
			return err
		}
		return s.start(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return s, nil
}

// APIServers returns the API servers in the order in which they were added. Unless Options.EtcdOnly
// is set, there is at least one.
func (c *Cluster) APIServers() []*APIServer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*APIServer(nil), c.servers...)
}

func (c *Cluster) first() *APIServer { return c.APIServers()[0] }

// URL returns the address of the first API server. The address does not change when the API server
// is restarted.
func (c *Cluster) URL() string { return c.first().URL() }

// KillAPIServer kills the first API server, as [APIServer.Kill] does.
func (c *Cluster) KillAPIServer() { c.first().Kill() }

// StartAPIServer starts the first API server again, as [APIServer.Start] does.
func (c *Cluster) StartAPIServer(ctx context.Context) error { return c.first().Start(ctx) }

// URL returns the server's address. It does not change when the server is restarted.
func (s *APIServer) URL() string { return "https://" + s.Address() }

// Address returns the host and the port that the server listens on.
func (s *APIServer) Address() string { return net.JoinHostPort(loopback, strconv.Itoa(s.port)) }

// Config returns the admin's client configuration for this server. It has no client-side rate
// limit. The caller may change it.
func (s *APIServer) Config() *rest.Config { return s.config(s.cluster.tokens[adminName]) }

// Kill kills the server with SIGKILL, as a crash would, and returns after it has exited. All its
// connections break. If the server is not running, Kill is a no-op.
func (s *APIServer) Kill() {
	s.mu.Lock()
	p := s.process
	s.process = nil
	s.mu.Unlock()
	if p != nil {
		p.Stop()
	}
}

// Pause stops the server with SIGSTOP: its connections stay open, and it sends nothing. On Linux,
// the server has stopped when Pause returns. On other systems, it may run for a moment longer. If
// the server was killed, Pause is a no-op.
func (s *APIServer) Pause() { s.signal((*Program).pause) }

// Resume continues a paused server. If the server was killed, Resume is a no-op.
func (s *APIServer) Resume() { s.signal((*Program).resume) }

func (s *APIServer) signal(send func(*Program)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		send(s.process)
	}
}

// Start starts the server after Kill, and waits until it is ready. The port, the certificate and
// the tokens are unchanged. Start returns an error if the server is running. The new watch cache
// has no earlier events, so the server answers 410 to a WATCH from an older resourceVersion.
func (s *APIServer) Start(ctx context.Context) error {
	if s.Running() {
		return errors.New("cluster: the API server runs already")
	}
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// Running reports whether the server was started and has not been killed since then. A paused
// server is running.
func (s *APIServer) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil
}

// PID returns the server's process ID, or 0 if the server was killed.
func (s *APIServer) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.pid
}

// start starts the server and waits until it is ready.
func (s *APIServer) start(ctx context.Context) error {
	c := s.cluster
	key := filepath.Join(c.dir, serviceAccountKeyFile)
	certs := filepath.Join(c.dir, certDir, s.name)
	args := append([]string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=" + loopback,
		"--advertise-address=" + loopback,
		"--endpoint-reconciler-type=none", // keeps a loopback address out of the Endpoints object
		"--secure-port=" + strconv.Itoa(s.port),
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
	// The server creates its certificate when it starts, so no client can verify it before.
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer insecure.CloseIdleConnections()
	p, err := startServer(c.binaries.APIServer, args, env, filepath.Join(c.dir, s.name+".log"), func(p *Program) error {
		err := p.waitReady(ctx, &http.Client{Transport: insecure}, s.URL()+"/readyz", c.tokens[adminName])
		if err == nil && s.caData == nil {
			s.caData, err = os.ReadFile(filepath.Join(certs, "apiserver.crt"))
		}
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	c.watchOver(p)
	return nil
}
