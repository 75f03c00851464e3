package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/proxy"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"pods"}, {"--nonsense"}, {"--memory-budget", "much"}, {"--memory-budget", "-1"}, {"--consistency", "cached:"}, {"--consistency", "some"},
		{"--consistency", "upstream:pods"}, {"--consistency", "proven:pods"}, {"--debug-addr", "here"}, {"--debug-addr", ":99999"},
		{"--goaway-chance", "5"}, {"--tls-cert-file", "a.crt"}, {"--tls-private-key-file", "a.key"}, {"--resources", "pods,"},
		{"--consistency", "cached:pods,"}, {"--audit-log-path", "-"},
	} {
		for _, checked := range [][]string{nil, {"--check-arguments"}} {
			cmd := newCommand()
			cmd.SetArgs(append(checked, args...))
			if err := cmd.Execute(); !errors.As(err, new(command.UsageError)) {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
	right := newCommand()
	right.SetArgs([]string{"--check-arguments", "--kubeconfig", "missing", "--resources", "pods"})
	if err := right.Execute(); err != nil {
		t.Errorf("what is right: %v", err)
	}
}

// TestMessages checks that each failure causes a single line on stderr, and the right exit code.
func TestMessages(t *testing.T) {
	upstream, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	defer upstream.Close()
	check.NoError(t, upstream.Start())
	dir := t.TempDir()
	good, bad, empty := filepath.Join(dir, "good"), filepath.Join(dir, "bad"), filepath.Join(dir, "empty")
	for path, text := range map[string]string{good: kubeconfig(upstream.URL()), bad: "}{", empty: ""} {
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	taken := strings.TrimPrefix(upstream.URL(), "http://")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", empty)
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--nonsense"}, 2, "unknown flag: --nonsense; see weir proxy --help"},
		{[]string{"pods"}, 2, "takes no argument"},
		{[]string{"--memory-budget", "much"}, 2, "want a size such as 512Mi"},
		{[]string{"--log-bytes", "-1"}, 2, "want a size such as 512Mi"},
		{[]string{"--max-connections", "many"}, 2, "--max-connections many: want a whole number"},
		{nil, 1, "no upstream: no kubeconfig found"},
		{[]string{"--kubeconfig", dir + "/none"}, 1, "no such file"},
		{[]string{"--kubeconfig", bad}, 1, "kubeconfig"},
		{[]string{"--kubeconfig", good, "--context", "other"}, 1, `context "other" does not exist`},
		{[]string{"--kubeconfig", good, "--listen", taken}, 1, "address already in use"},
		{[]string{"--listen", "foo"}, 2, "foo: missing port in address"},
		{[]string{"--listen", "127.0.0.1:nonsense"}, 2, "unknown port"},
		{[]string{"--listen", "127.0.0.1:99999"}, 2, "invalid port"},
		{[]string{"--resources", ""}, 2, "want a list of resources"},
		{[]string{"--max-staleness", "-1s"}, 2, "a staleness of -1s: want 0 or more"},
		{[]string{"--recheck", "-1s"}, 2, "want 0 or more"},
		{[]string{"--max-connections", "-1"}, 2, "a bound of -1 connections: want 0 or more"},
		{[]string{"--kubeconfig", good, "--tls-cert-file", dir + "/none", "--tls-private-key-file", dir + "/none"}, 1, "no such file"},
		{[]string{"--kubeconfig", good, "--tls-cert-file", bad, "--tls-private-key-file", bad}, 1, "PEM"},
		{[]string{"--kubeconfig", good, "--tls-cert-file", bad}, 2, "a certificate needs its key"},
		{[]string{"--kubeconfig", good, "--client-ca-file", dir + "/none"}, 2, "no such file"},
		{[]string{"--kubeconfig", good, "--resources", "pods,"}, 2, "no resource"},
		{[]string{"--kubeconfig", good, "--goaway-chance", "0.5"}, 2, "want 0 to 0.02"},
		{[]string{"--debug-addr", "here"}, 2, "--debug-addr here: missing port in address"},
		{[]string{"--kubeconfig", good, "--debug-addr", taken}, 1, "address already in use"},
		{[]string{"--kubeconfig", good, "--write-kubeconfig", dir + "/no/such/folder/"}, 1, "kubeconfig"},
	} {
		var stderr strings.Builder
		cmd := newCommand()
		// With nil, the command would use the arguments of the test process.
		cmd.SetArgs(append([]string{}, tt.args...))
		code := command.Report(&stderr, cmd.ExecuteContext(t.Context()))
		text := stderr.String()
		if code != tt.code || !strings.HasPrefix(text, "error: ") || strings.Count(text, "\n") != 1 || !strings.Contains(text, tt.says) {
			t.Errorf("%q: exit code %d, %q", tt.args, code, text)
		}
	}
}

// kubeconfig returns a kubeconfig for a server.
func kubeconfig(url string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
		"clusters: [{name: k, cluster: {server: '" + url + "'}}]\nusers: [{name: u, user: {token: t}}]\n"
}

func TestConsistency(t *testing.T) {
	for text, want := range map[string]string{"proven": "", "upstream": "", "cached": "pods,nodes", "cached:pods": "pods", "cached:pods,leases.coordination.k8s.io": "pods,leases.coordination.k8s.io"} {
		f := &flags{consistency: text, budget: "64Mi", log: "0", watches: "1Gi", responses: "1Gi", options: proxy.Options{Resources: []string{"pods", "nodes"}}}
		if err := f.complete(); err != nil || strings.Join(f.options.TrustCache, ",") != want || f.options.MemoryBudget != 64<<20 ||
			f.options.ForwardConsistent != (text == "upstream") {
			t.Errorf("%s: %q, %d, %v", text, f.options.TrustCache, f.options.MemoryBudget, err)
		}
	}
}

// TestRun runs the command in front of an embedded server. It checks that clients can use the
// kubeconfig and the debug page that the command announces, and that an interrupt ends the command
// without an error.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	upstream, err := apiserver.New(apiserver.Options{Pods: 5})
	check.NoError(t, err)
	defer upstream.Close()
	check.NoError(t, upstream.Start())
	dir := t.TempDir()
	of, written := filepath.Join(dir, "upstream"), filepath.Join(dir, "proxy")
	check.NoError(t, os.WriteFile(of, []byte(kubeconfig(upstream.URL())), 0o600))
	out, in := io.Pipe()
	cmd := newCommand()
	cmd.SetOut(in)
	cmd.SetArgs([]string{"--kubeconfig", of, "--resources", "pods", "--write-kubeconfig", written, "--cert-dir", filepath.Join(dir, "certs"), "--debug-addr", ":0"})
	var says bytes.Buffer // written before the address is printed
	cmd.SetErr(&says)
	running, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(running); in.Close() }()
	first := make([]byte, 256)
	n, err := out.Read(first)
	if err != nil || !bytes.HasPrefix(first[:n], []byte("https://127.0.0.1:")) {
		t.Fatalf("%q, %v, %v", first[:n], err, <-ended)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", written)
	check.NoError(t, err)
	tr, err := rest.TransportFor(cfg)
	check.NoError(t, err)
	client, err := kubernetes.NewForConfigAndClient(cfg, &http.Client{Transport: tr})
	check.NoError(t, err)
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 5 {
		t.Errorf("%v", err)
	}
	server := strings.TrimSpace(string(first[:n]))
	if page := debugPage(t, ctx, says.String()); !strings.Contains(page, `"name": "pods"`) || !strings.Contains(page, server) {
		t.Errorf("%s", page)
	}
	stop(command.ErrInterrupted) // an interrupt ends the proxy without a delay for load balancers
	check.NoError(t, <-ended)
	utilnet.CloseIdleConnectionsFor(tr)
}

// debugPage returns the debug page, whose URL is in the command's output.
func debugPage(t *testing.T, ctx context.Context, told string) string {
	t.Helper()
	_, url, found := strings.Cut(strings.TrimSpace(told), "a page that shows the proxy: ")
	if !found || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("%q", told)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"informers", nil)
	check.NoError(t, err)
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	check.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.NoError(t, err)
	return string(body)
}
