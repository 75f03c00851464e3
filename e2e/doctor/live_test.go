package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// livePods are enough for findings from one LIST a second.
const livePods = 2000

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
	c, err := cluster.Start(ctx, cluster.Options{APIServerArgs: []string{countOften}, Pods: podsim.New(livePods, 1), Logf: t.Logf})
	check.NoError(t, err)
	defer c.Stop()
	s := script{t, ctx, c}
	s.fatal(c.WriteKubeconfig(kubeconfig))
	s.countedAll(livePods)
	var out, said bytes.Buffer
	look := exec.CommandContext(ctx, weir, "doctor", "--kubeconfig", kubeconfig, "--for", "10s", "-o", "json")
	look.Stdout, look.Stderr = &out, &said
	s.fatal(look.Start())
	ended := make(chan error, 1)
	go func() { ended <- look.Wait() }()
	for running := true; running; {
		s.seek(1)
		select {
		case err := <-ended:
			if running = false; err != nil {
				t.Fatalf("%v: %s", err, &said)
			}
		default:
		}
	}
	type resource struct {
		Resource                  string
		Objects, Lists, ListBytes float64
	}
	type finding struct{ Kind, Resource string }
	var report struct {
		Version   string
		CPUCores  float64
		Resources []resource
		Findings  []finding
	}
	s.fatal(json.Unmarshal(out.Bytes(), &report))
	if report.Version == "" || report.CPUCores <= 0 {
		t.Errorf("%+v", report)
	}
	pods := slices.IndexFunc(report.Resources, func(r resource) bool { return r.Resource == "pods" })
	if pods < 0 {
		t.Fatalf("no pods among %+v", report.Resources)
	}
	if r := report.Resources[pods]; r.Objects != livePods || r.Lists < 1 || r.ListBytes <= 0 {
		t.Errorf("%+v", r)
	}
	if !slices.Contains(report.Findings, finding{"selectors", "pods"}) {
		t.Errorf("found %+v", report.Findings)
	}
}
