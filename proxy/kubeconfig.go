package proxy

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName is the name of the cluster, the context and the user in a kubeconfig from
// Kubeconfig.
const kubeconfigName = "weir-proxy"

// ErrNotStarted is returned by Kubeconfig and WriteKubeconfig before Start, while the server has no
// address.
var ErrNotStarted = errors.New("proxy: not started")

// Kubeconfig returns a kubeconfig for the proxy. The parameter (of) is a client's kubeconfig for
// the upstream: the result has the user and the namespace of its current context. Kubeconfig
// returns ErrNotStarted before Start, and ErrInvalidOptions if the given kubeconfig has no current
// context.
func (s *Server) Kubeconfig(of *clientcmdapi.Config) (*clientcmdapi.Config, error) {
	url := s.URL()
	if url == "" {
		return nil, ErrNotStarted
	}
	current := of.Contexts[of.CurrentContext]
	if current == nil {
		return nil, fmt.Errorf("%w: the kubeconfig has no current context", ErrInvalidOptions)
	}
	out := clientcmdapi.NewConfig()
	out.CurrentContext = kubeconfigName
	out.Clusters[kubeconfigName] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: s.CAData()}
	out.Contexts[kubeconfigName] = &clientcmdapi.Context{Cluster: kubeconfigName, AuthInfo: kubeconfigName, Namespace: current.Namespace}
	user := clientcmdapi.NewAuthInfo()
	if authInfo := of.AuthInfos[current.AuthInfo]; authInfo != nil {
		user = authInfo.DeepCopy()
	}
	out.AuthInfos[kubeconfigName] = user
	return out, nil
}

// WriteKubeconfig writes the result of Kubeconfig to a file that only its owner can read.
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
