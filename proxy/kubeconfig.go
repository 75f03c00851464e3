package proxy

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName names everything in a kubeconfig that is written.
const kubeconfigName = "weir-proxy"

// ErrNotStarted: the server has no address yet.
var ErrNotStarted = errors.New("proxy: not started")

// Kubeconfig returns a kubeconfig for the proxy with the user and the namespace of the current
// context of another one, its certificates and tokens in it as they were.
func (s *Server) Kubeconfig(of *clientcmdapi.Config) (*clientcmdapi.Config, error) {
	url := s.URL()
	if url == "" {
		return nil, ErrNotStarted
	}
	current := of.Contexts[of.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("%w: the kubeconfig has no current context", ErrOptions)
	}
	out := clientcmdapi.NewConfig()
	out.CurrentContext = kubeconfigName
	out.Clusters[kubeconfigName] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: s.CAData()}
	out.Contexts[kubeconfigName] = &clientcmdapi.Context{Cluster: kubeconfigName, AuthInfo: kubeconfigName, Namespace: current.Namespace}
	user := clientcmdapi.NewAuthInfo()
	if known := of.AuthInfos[current.AuthInfo]; known != nil {
		user = known.DeepCopy()
	}
	out.AuthInfos[kubeconfigName] = user
	return out, nil
}

// WriteKubeconfig writes that kubeconfig to a file that only its owner can read.
func (s *Server) WriteKubeconfig(of *clientcmdapi.Config, path string) error {
	cfg, err := s.Kubeconfig(of)
	if err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("proxy: kubeconfig: %w", err)
	}
	return nil
}
