package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/podsim"
)

// TestLive: what a client makes a real kube-apiserver do is found in its metrics, under the names
// that this version of it gives them.
func TestLive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dir := t.TempDir()
	weir, kubeconfig := filepath.Join(dir, "weir"), filepath.Join(dir, "kubeconfig")
	if _, err := cluster.GoCommand(ctx, "", "build", "-o", weir, "github.com/weirproject/weir/cmd/weir"); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{Pods: podsim.New(500, 1), Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	s := script{t, ctx, c}
	s.fatal(c.WriteKubeconfig(kubeconfig))
	var out, said bytes.Buffer
	look := exec.CommandContext(ctx, weir, "doctor", "--kubeconfig", kubeconfig, "--for", "3s", "-o", "json")
	look.Stdout, look.Stderr = &out, &said
	s.fatal(look.Start())
	ended := make(chan error, 1)
	go func() { ended <- look.Wait() }()
	for running := true; running; {
		s.seek(20)
		select {
		case err := <-ended:
			if running = false; err != nil {
				t.Fatalf("%v: %s", err, &said)
			}
		default:
		}
	}
	var report struct {
		Version   string
		CPUCores  float64
		Resources []struct {
			Resource       string
			Objects, Lists float64
			ListBytes      float64
		}
		Findings []struct{ Kind, Resource string }
	}
	s.fatal(json.Unmarshal(out.Bytes(), &report))
	if r := report.Resources[0]; report.Version == "" || report.CPUCores <= 0 || r.Resource != "pods" || r.Objects != 500 || r.Lists < 20 || r.ListBytes <= 0 {
		t.Errorf("%+v", report)
	}
	if len(report.Findings) == 0 || report.Findings[0].Kind != "selectors" || report.Findings[0].Resource != "pods" {
		t.Errorf("found %+v", report.Findings)
	}
}
