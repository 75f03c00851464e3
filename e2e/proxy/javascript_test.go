package proxy

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// TestJavaScript runs a program that uses the JavaScript client. This client reads JSON, LISTs
// without a resourceVersion, and WATCHes from the list's resourceVersion. The test checks that the
// program prints the same with the proxy as with kube-apiserver. It also checks that the proxy
// answers a LIST and a WATCH from its cache.
func TestJavaScript(t *testing.T) {
	dir := t.TempDir()
	check.NoError(t, os.CopyFS(dir, os.DirFS("testdata/javascript")))
	node := testenv.Program(t, "nodejs", "node")
	installJavaScript(t, dir)
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	direct := runJavaScript(t, ctx, node, dir, kubeconfig(t, shared.Config()))
	for _, line := range []string{"missing 404", "added from-javascript none", "updated from-javascript patched", "deleted from-javascript patched"} {
		if !strings.Contains(direct, line+"\n") {
			t.Errorf("straight to kube-apiserver it did not say %q:\n%s", line, direct)
		}
	}
	if through := runJavaScript(t, ctx, node, dir, kubeconfig(t, through(t, s, shared.Config()))); through != direct {
		t.Errorf("through the proxy:\n%s\nkube-apiserver:\n%s", through, direct)
	}
	for _, verb := range []string{"list", "watch"} {
		if metric(t, ctx, s, `weir_proxy_served_total{group="",resource="pods",verb="`+verb+`"}`) == 0 {
			t.Errorf("no %s was answered from the cache", verb)
		}
	}
}

// installJavaScript installs the client from the npm registry. It skips the test if there is no
// npm, or if npm cannot install the client.
func installJavaScript(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Program(t, "npm", "npm"), "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		testenv.Skip(t, "npm cannot install the JavaScript client: "+err.Error())
	}
}

func runJavaScript(t *testing.T, ctx context.Context, node, dir, kubeconfig string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, node, filepath.Join(dir, "client.mjs"), kubeconfig)
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &errs)
	}
	return out.String()
}
