package servers

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is the configuration for a proxy's upstream, and the directory of the proxy's files,
// which only we can read.
type kubeconfig struct {
	config *rest.Config
	dir    string
}

// upstreamFile is the kubeconfig for the upstream, proxyFile the one that a proxy writes for
// itself.
const (
	upstreamFile = "upstream.kubeconfig"
	proxyFile    = "proxy.kubeconfig"
)

// newKubeconfig writes cfg to a file as a kubeconfig, because it may have come from flags.
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

// ofProxy returns the configuration for a proxy that has written its kubeconfig: the proxy's
// address and CA, and our credentials.
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
