package apiserver

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

// manifest is the Deployment that TestKubectl applies twice. The second time it has another image,
// so that kubectl must merge the list of containers by name.
const manifest = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"a","image":"IMAGE"},{"name":"b","image":"other"}]}}}}`

// enums matches the parts of kubectl explain's output that cannot be derived from Go types: the
// values of enums, and required fields whose JSON tag does not say that they are required.
var enums = regexp.MustCompile(`\n +enum: .*|\n *\n +Possible enum values:(\n +\S.*)*| -required-`)

func withoutEnums(text string) string { return enums.ReplaceAllString(text, "") }

// TestKubectl checks that kubectl prints the same for the embedded server and for kube-apiserver.
func TestKubectl(t *testing.T) {
	ctx, things, ours, theirs := startBoth(t)
	clients, err := cluster.BuildClients(ctx, cluster.LogToStderr)
	check.NoError(t, err)
	dir := t.TempDir()
	for image, file := range map[string]string{"first": "1.json", "second": "2.json"} {
		check.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(manifest, "IMAGE", image, 1)), 0o600))
	}
	a, b := newKubectl(t, clients.Kubectl, ours.config), newKubectl(t, clients.Kubectl, theirs.config)
	commands := [][]string{
		{"apply", "-f", filepath.Join(dir, "1.json")},
		{"apply", "-f", filepath.Join(dir, "2.json")},
		{"get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image} {.metadata.generation}"},
		{"scale", "deployment", "web", "--replicas=0", "--current-replicas=1"},
		{"get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"},
		{"delete", "deployment", "web"},
		{"create", "serviceaccount", "walker"},
		{"delete", "serviceaccount", "walker"},
		{"create", "token", "walker"},
		{"create", "secret", "generic", "x", "--from-literal=a=b", "-n", "missing"},
		{"auth", "can-i", "get", "pods"},
		{"auth", "can-i", "delete", "widgets." + things.Group},
		{"auth", "can-i", "fly", "pigs"},
		{"explain", "widgets." + things.Group},
		{"explain", "widgets." + things.Group + ".spec"},
	}
	for _, kind := range []string{"pods", "deployments.spec", "services.spec.ports", "nodes.status", "secrets", "jobs"} {
		commands = append(commands, []string{"explain", kind}, []string{"explain", "--recursive", kind})
	}
	for _, command := range commands {
		if x, y := withoutEnums(a.run(t, ctx, command...)), withoutEnums(b.run(t, ctx, command...)); x != y {
			t.Errorf("kubectl %q prints\n%s\nand of kube-apiserver\n%s", command, x, y)
		}
	}
}

// kubectl runs the kubectl program against one server.
type kubectl struct{ path, config, dir string }

func newKubectl(t *testing.T, path string, cfg *rest.Config) kubectl {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["it"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	c.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken, ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	c.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	c.CurrentContext = "it"
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	check.NoError(t, clientcmd.WriteToFile(*c, config))
	return kubectl{path, config, dir}
}

// run runs kubectl. It returns its standard output and error output, and the exit code.
func (k kubectl) run(t *testing.T, ctx context.Context, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, k.path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.config, "HOME="+k.dir)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	return out.String() + cmd.ProcessState.String()
}
