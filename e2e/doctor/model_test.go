package doctor

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/measure/doctor/cost"
)

var (
	modelPods = flag.Int("doctor.pods", 0, "pods of TestCostModel; 0: few, for a few seconds")
	modelPath = flag.String("doctor.model", "", "where TestCostModel writes what it has measured")
)

const (
	fewPods = 200
	// offAtMost is what predictions may be off by, where there is enough to measure.
	offAtMost = 1.5
	// modelDeadline bounds a measurement.
	modelDeadline = 30 * time.Minute
)

// TestCostModel measures what requests cost a real kube-apiserver, and compares what incidents cost
// with what is predicted. By default it sees whether that can be measured, since other tests run on
// the same machine; with pods that are set it demands that predictions are good.
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
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	s := script{t, ctx, c}
	s.fatal(c.WriteKubeconfig(kubeconfig))
	out := run(ctx, t, bench, append(args, "cost", "--kubeconfig", kubeconfig, "--etcd", c.EtcdURL(), "--proxy", proxy, "-o", "json")...)
	var m cost.Model
	s.fatal(json.Unmarshal(out, &m))
	// With few pods, on a machine that is busy, some times cannot be told from none.
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
