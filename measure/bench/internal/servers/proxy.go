package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/internal/tools/process"
)

// stopTimeout limits how long a proxy may take to end cleanly. Then it is killed.
const stopTimeout = 10 * time.Second

// maxConnections is the number of connections that a proxy accepts. Each watcher uses one.
const maxConnections = 100_000

// proxy is a running weir-proxy.
type proxy struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	said   *process.Tail
	config *rest.Config
}

// startProxy starts a proxy that caches pods, with additional flags. It returns when the proxy
// listens.
func startProxy(ctx context.Context, path string, k *kubeconfig, more ...string) (*proxy, error) {
	running, cancel := context.WithCancel(ctx)
	p := &proxy{cancel: cancel, said: &process.Tail{}}
	flags := append([]string{"--kubeconfig", k.file(upstreamFile), "--resources", "pods", "--max-connections", strconv.Itoa(maxConnections),
		"--write-kubeconfig", k.file(proxyFile)}, more...)
	p.cmd = exec.CommandContext(running, path, flags...)
	p.cmd.Stderr = p.said
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = stopTimeout
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	defer time.AfterFunc(startTimeout, cancel).Stop()
	// The line contains the proxy's address, which is also in the proxy's kubeconfig.
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(p.failure(errors.New("the proxy did not start")), p.stop())
	}
	if p.config, err = k.ofProxy(); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// gauge returns a gauge of the proxy.
func (p *proxy) gauge(t *target) gauge {
	g := procGauge{pid(p.cmd.Process.Pid)}
	if _, err := g.process.cpu(); err != nil { // a system without /proc
		return &metricsGauge{target: t}
	}
	return g
}

// failure returns err with the last line that the proxy has written. It returns nil if err is nil.
func (p *proxy) failure(err error) error {
	if said := p.said.Last(); err != nil && said != "" {
		return fmt.Errorf("%w; the proxy's last log line: %s", err, said)
	}
	return err
}

// stop ends the proxy. It returns an error if the proxy did not end cleanly.
func (p *proxy) stop() error {
	p.cancel()
	err := p.cmd.Wait()
	if errors.Is(err, context.Canceled) { // stop cancelled the context
		return nil
	}
	return err
}

// kubeconfig contains the configuration of a proxy's upstream, and the directory of the proxy's
// files, which only this user can read.
type kubeconfig struct {
	config *rest.Config
	dir    string
}

// upstreamFile is the kubeconfig of the upstream. proxyFile is the kubeconfig that the proxy writes
// for its clients.
const (
	upstreamFile = "upstream.kubeconfig"
	proxyFile    = "proxy.kubeconfig"
)

// newKubeconfig writes cfg as a kubeconfig to a new file, from which the proxy reads it. The file
// is necessary because cfg may differ from the user's kubeconfig: flags can change it.
func newKubeconfig(cfg *rest.Config) (*kubeconfig, error) {
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	k := &kubeconfig{config: cfg, dir: dir}
	const name = "bench"
	out := clientcmdapi.NewConfig()
	out.CurrentContext = name
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.Clusters[name] = &clientcmdapi.Cluster{
		Server: cfg.Host + cfg.APIPath, InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName,
		CertificateAuthority: cfg.CAFile, CertificateAuthorityData: cfg.CAData,
	}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token: cfg.BearerToken, TokenFile: cfg.BearerTokenFile, Exec: cfg.ExecProvider, AuthProvider: cfg.AuthProvider,
		ClientCertificate: cfg.CertFile, ClientCertificateData: cfg.CertData,
		ClientKey: cfg.KeyFile, ClientKeyData: cfg.KeyData,
		Username: cfg.Username, Password: cfg.Password,
	}
	if err := clientcmd.WriteToFile(*out, k.file(upstreamFile)); err != nil {
		k.remove()
		return nil, fmt.Errorf("a kubeconfig for the proxy: %w", err)
	}
	return k, nil
}

func (k *kubeconfig) file(name string) string { return filepath.Join(k.dir, name) }

func (k *kubeconfig) remove() { os.RemoveAll(k.dir) }

// ofProxy returns a client's configuration for a proxy that has written its kubeconfig: with the
// proxy's address and CA, and the credentials of the upstream's configuration.
func (k *kubeconfig) ofProxy() (*rest.Config, error) {
	cfg, err := clientcmd.LoadFromFile(k.file(proxyFile))
	if err != nil {
		return nil, err
	}
	for _, cluster := range cfg.Clusters {
		return clone(k.config, cluster.Server, cluster.CertificateAuthorityData), nil
	}
	return nil, fmt.Errorf("the proxy's kubeconfig names no cluster")
}
