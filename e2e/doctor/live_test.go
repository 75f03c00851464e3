package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// livePods is a number of pods for which one LIST per second causes a finding.
const livePods = 2000

// TestLive checks that weir doctor finds a client's requests in the metrics of a real
// kube-apiserver. The test fails if this version of kube-apiserver has renamed a metric that weir
// doctor reads.
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

// run runs a program and returns its standard output.
func run(ctx context.Context, t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	t.Logf("%s", &said)
	if err != nil {
		t.Fatalf("%s %v: %v", program, args, err)
	}
	return out.Bytes()
}

var (
	modelPods = flag.Int("doctor.pods", 0, "pods of TestCostModel; 0: few, for a few seconds")
	modelPath = flag.String("doctor.model", "", "where TestCostModel writes what it has measured")
)

const (
	fewPods = 200
	// offAtMost is the factor by which a prediction may differ from the measurement if the flag
	// doctor.pods is set.
	offAtMost = 1.5
	// modelDeadline bounds a measurement.
	modelDeadline = 30 * time.Minute
)

// TestCostModel measures the cost of requests to a real kube-apiserver. It also measures the cost
// of incidents that weir lab replays, and compares it with the predicted cost. By default it checks
// only that the measurement works, because other tests run on the same machine. If the flag
// doctor.pods is set, it also checks that the predictions are within a factor of offAtMost.
func TestCostModel(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), modelDeadline)
	defer cancel()
	pods, args := fewPods, []string{"--duration", "200ms"}
	if *modelPods > 0 {
		pods, args = *modelPods, []string{"--duration", "8s"}
	}
	dir := t.TempDir()
	bench, proxy, kubeconfig := filepath.Join(dir, "weir-bench"), filepath.Join(dir, "weir-proxy"), filepath.Join(dir, "kubeconfig")
	for path, of := range map[string]string{bench: "measure/bench/cmd/weir-bench", proxy: "proxy/cmd/weir-proxy"} {
		if _, err := cluster.GoCommand(ctx, "", "build", "-o", path, "github.com/weirproject/weir/"+of); err != nil {
			t.Fatal(err)
		}
	}
	c, err := cluster.Start(ctx, cluster.Options{Pods: podsim.New(pods, 1), Logf: t.Logf})
	check.NoError(t, err)
	defer c.Stop()
	s := script{t, ctx, c}
	s.fatal(c.WriteKubeconfig(kubeconfig))
	out := run(ctx, t, bench, append(args, "cost", "--kubeconfig", kubeconfig, "--etcd", c.EtcdURL(), "--proxy", proxy, "-o", "json")...)
	var m cost.Model
	s.fatal(json.Unmarshal(out, &m))
	// With few pods on a busy machine, some measured times are zero.
	timed := m.Server.Request > 0 && m.Server.Looked > 0 && m.Server.Encodings[cost.Protobuf].Seconds > 0
	if *modelPods > 0 && !timed || m.Server.Encodings[cost.JSON].Bytes <= 1 || len(m.Checks) == 0 {
		t.Errorf("measured %+v", m)
	}
	for _, check := range m.Checks {
		t.Logf("%s, %s: %s was %.4g, predicted %.4g", check.Incident, check.Way, check.Figure, check.Want, check.Got)
		if cpu := check.Figure == cost.CPUFigure || check.Figure == cost.ProxyCPUFigure; cpu && check.Want < cost.LeastCPU {
			continue
		}
		if *modelPods > 0 && check.Off() > offAtMost {
			t.Errorf("%s, %s: %s was %.4g, predicted %.4g", check.Incident, check.Way, check.Figure, check.Want, check.Got)
		}
	}
	if *modelPath != "" && !t.Failed() {
		s.fatal(os.WriteFile(*modelPath, out, 0o644))
	}
}
