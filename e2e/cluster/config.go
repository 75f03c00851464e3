package cluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config returns the admin's client configuration for the first API server. The admin is a member
// of system:masters. The configuration has no client-side rate limit. The caller may change it.
func (c *Cluster) Config() *rest.Config {
	return c.first().Config()
}

// ConfigFor returns the client configuration of one of Options.Users. It returns an error if
// Options.Users lacks the name. The configuration has no client-side rate limit. The caller may
// change it.
func (c *Cluster) ConfigFor(user string) (*rest.Config, error) {
	token, ok := c.tokens[user]
	if !ok {
		return nil, fmt.Errorf("cluster: user %q is not among Options.Users", user)
	}
	return c.first().config(token), nil
}

func (s *APIServer) config(token string) *rest.Config {
	return &rest.Config{
		Host:            s.URL(),
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.caData},
		QPS:             -1,
	}
}

// WriteKubeconfig writes the admin's client configuration to path as a kubeconfig. It overwrites an
// existing file.
func (c *Cluster) WriteKubeconfig(path string) error {
	const name = "weir-e2e"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.first().caData}
	config.AuthInfos[adminName] = &clientcmdapi.AuthInfo{Token: c.tokens[adminName]}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: adminName}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("cluster: writing a kubeconfig: %w", err)
	}
	return nil
}
