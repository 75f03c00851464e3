package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// Clients connect from these loopback addresses. Reconnecting clients use 127.0.1.N.
const (
	attackerAddress = "127.0.0.2"
	politeAddress   = "127.0.0.3"
	newAddress      = "127.0.0.4"
	probeAddress    = "127.0.0.5"
)

// victim is the server that is attacked: weir-proxy or kube-apiserver.
type victim struct {
	address string // host and port
	health  string // address of --health-listen; empty for kube-apiserver
	roots   *x509.CertPool
	pid     func() int
}

// dial opens a TLS connection from a loopback address. It offers the given ALPN protocols.
func (v *victim) dial(ctx context.Context, from string, protocols ...string) (*tls.Conn, error) {
	conn, err := v.connect(ctx, from)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(v.address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: v.roots, ServerName: host, NextProtos: protocols})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// connect opens a TCP connection from a loopback address. When the connection is closed, its port
// is free immediately.
func (v *victim) connect(ctx context.Context, from string) (*net.TCPConn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(ctx, "tcp", v.address)
	if err != nil {
		return nil, err
	}
	c := conn.(*net.TCPConn)
	return c, c.SetLinger(0)
}

// weirProxy is a running weir-proxy, with the arguments and the environment of deploy/base.
type weirProxy struct {
	victim
	dir     string
	args    []string
	env     []string
	program *cluster.Program
	limit   int64 // memory limit of the container, in bytes
}

// baseDeployment returns the Deployment of deploy/base.
func baseDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/base/deployment.yaml")
	check.NoError(t, err)
	d := &appsv1.Deployment{}
	check.NoError(t, yaml.UnmarshalStrict(raw, d))
	return d
}

// startProxy starts a proxy with the arguments of deploy/base and additional arguments. It waits
// until the proxy is ready.
func startProxy(t *testing.T, ctx context.Context, more ...string) *weirProxy {
	t.Helper()
	container := baseDeployment(t).Spec.Template.Spec.Containers[0]
	p := &weirProxy{dir: t.TempDir()}
	p.address, p.health = freeAddress(t), freeAddress(t)
	upstream := filepath.Join(p.dir, "upstream")
	check.NoError(t, shared.WriteKubeconfig(upstream))
	p.args = slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool {
		return strings.HasPrefix(arg, "--listen=") || strings.HasPrefix(arg, "--health-listen=") || strings.HasPrefix(arg, "--tls-")
	})
	p.args = append(p.args, "--kubeconfig="+upstream, "--listen="+p.address, "--health-listen="+p.health,
		"--cert-dir="+filepath.Join(p.dir, "certs"), "--write-kubeconfig="+p.kubeconfig())
	p.args = append(p.args, more...)
	for _, e := range container.Env {
		p.env = append(p.env, e.Name+"="+e.Value)
	}
	p.env = append(p.env, "GODEBUG=gctrace=1") // liveHeap reads this output
	memory := container.Resources.Limits["memory"]
	p.limit = memory.Value()
	if p.limit == 0 {
		t.Fatal("the container has no limit of memory")
	}
	p.pid = func() int { return p.program.PID() }
	p.start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("weir-proxy ended with:\n%s", p.program.LastLines())
		}
		p.program.Stop()
	})
	p.trust(t, ctx)
	p.awaitReady(t, ctx)
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := cluster.FreeAddress()
	check.NoError(t, err)
	return address
}

func (p *weirProxy) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }
func (p *weirProxy) log() string        { return filepath.Join(p.dir, "log") }

func (p *weirProxy) start(t *testing.T) {
	t.Helper()
	var err error
	if p.program, err = cluster.StartProgram(binary, p.args, p.env, p.log()); err != nil {
		t.Fatal(err)
	}
}

func (p *weirProxy) restart(t *testing.T) {
	t.Helper()
	p.program.Stop()
	p.start(t)
}

// trust reads the proxy's CA certificate from the kubeconfig that the proxy writes.
func (p *weirProxy) trust(t *testing.T, ctx context.Context) {
	t.Helper()
	testenv.EventuallyNoError(t, ctx, "the proxy has written its kubeconfig", func() error {
		check.NoError(t, p.program.Err())
		cfg, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
		if err != nil {
			return err
		}
		p.roots = rootsOf(t, cfg)
		return nil
	})
}

func rootsOf(t *testing.T, cfg *rest.Config) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(cfg.CAData) {
		t.Fatal("no certificate")
	}
	return roots
}

func (p *weirProxy) awaitReady(t *testing.T, ctx context.Context) {
	t.Helper()
	client := newClient(&p.victim, probeAddress, "")
	defer client.close()
	testenv.EventuallyNoError(t, ctx, "the proxy is ready", func() error {
		check.NoError(t, p.program.Err())
		body, err := client.get(ctx, "/readyz?verbose")
		if err == nil && strings.Contains(string(body), "not ") {
			return fmt.Errorf("%s", body)
		}
		return err
	})
}

// newAPIServer starts another kube-apiserver on the shared cluster. It is killed when the test
// ends.
func newAPIServer(t *testing.T, ctx context.Context) *victim {
	t.Helper()
	server, err := shared.AddAPIServer(ctx)
	check.NoError(t, err)
	t.Cleanup(server.Kill)
	at, err := url.Parse(server.URL())
	check.NoError(t, err)
	return &victim{address: at.Host, roots: rootsOf(t, server.Config()), pid: server.PID}
}

// statusError is a response status other than 200.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("%d %s", int(e), http.StatusText(int(e))) }
