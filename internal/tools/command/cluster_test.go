package command

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/internal/testing/check"
)

// configured returns the configuration that flags select in a kubeconfig with two clusters, two
// users and two contexts.
func configured(t *testing.T, args ...string) *rest.Config {
	t.Helper()
	raw := clientcmdapi.NewConfig()
	for _, name := range []string{"one", "two"} {
		raw.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name}
		raw.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "token of " + name}
		raw.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	raw.CurrentContext = "one"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, clientcmd.WriteToFile(*raw, path))
	c := NewClusterFlags()
	check.NoError(t, c.Flags.Parse(append(args, "--kubeconfig="+path)))
	cfg, err := c.RestConfig()
	check.NoError(t, err)
	return cfg
}

// TestClusterFlags checks the effect of kubectl's flags on a client's configuration, and that the
// help shows the common flags.
func TestClusterFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		ok   func(*rest.Config) bool
	}{
		{nil, func(c *rest.Config) bool { return c.Host == "https://one" && c.BearerToken == "token of one" }},
		{[]string{"--context=two"}, func(c *rest.Config) bool { return c.Host == "https://two" && c.BearerToken == "token of two" }},
		{[]string{"--cluster=two"}, func(c *rest.Config) bool { return c.Host == "https://two" && c.BearerToken == "token of one" }},
		{[]string{"--user=two"}, func(c *rest.Config) bool { return c.Host == "https://one" && c.BearerToken == "token of two" }},
		{[]string{"-s", "https://three"}, func(c *rest.Config) bool { return c.Host == "https://three" }},
		{[]string{"--token=mine"}, func(c *rest.Config) bool { return c.BearerToken == "mine" }},
		{[]string{"--as=jane", "--as-group=a", "--as-group=b"}, func(c *rest.Config) bool {
			return c.Impersonate.UserName == "jane" && slices.Equal(c.Impersonate.Groups, []string{"a", "b"})
		}},
		{[]string{"--request-timeout=7s"}, func(c *rest.Config) bool { return c.Timeout == 7*time.Second && Impatient(c).Timeout == 7*time.Second }},
	} {
		if cfg := configured(t, tc.args...); !tc.ok(cfg) {
			t.Errorf("%q: %s, as %+v, token %q, timeout %s", tc.args, cfg.Host, cfg.Impersonate, cfg.BearerToken, cfg.Timeout)
		}
	}
	flags := NewClusterFlags().Flags
	for _, name := range []string{"as", "as-group", "cluster", "context", "namespace", "request-timeout", "server", "token", "user"} {
		if flags.Lookup(name).Hidden {
			t.Errorf("--%s is hidden", name)
		}
	}
}
