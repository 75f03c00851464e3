package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const (
	predictedPods  = 1500
	predictedLists = 120
	// predictedOff is the factor by which the prediction may differ from the measurement. It is large
	// because the model was measured on another machine, and other tests run at the same time.
	predictedOff = 4
)

// TestPredicted checks the CPU time that weir doctor predicts for a client's LISTs. weir doctor
// reads the audit log of a real kube-apiserver, and asks the server for the sizes of objects. The
// test also checks that the HTML report contains the client and a chart.
func TestPredicted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dir := t.TempDir()
	weir, kubeconfig := filepath.Join(dir, "weir"), filepath.Join(dir, "kubeconfig")
	log, rules := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	check.NoError(t, os.WriteFile(rules, []byte(policy), 0o600))
	if _, err := cluster.GoCommand(ctx, "", "build", "-o", weir, "github.com/weirproject/weir/cmd/weir"); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{
		APIServerArgs: []string{"--audit-log-path=" + log, "--audit-policy-file=" + rules, countOften},
		Pods:          podsim.New(predictedPods, 1), Logf: t.Logf,
	})
	check.NoError(t, err)
	defer c.Stop()
	s := script{t, ctx, c}
	s.fatal(c.WriteKubeconfig(kubeconfig))
	s.countedAll(predictedPods)
	before := s.cpu()
	s.pollInProtobuf(predictedLists)
	spent := s.cpu() - before

	var r prediction
	s.fatal(json.Unmarshal(run(ctx, t, weir, "doctor", log, "--kubeconfig", kubeconfig, "-o", "json"), &r))
	r.check(t, spent)
	page := run(ctx, t, weir, "doctor", log, "--kubeconfig", kubeconfig, "-o", "html")
	for _, want := range []string{"<svg ", "poller/v1.0", "If all clients restarted at the same time", "1,500"} {
		if !regexp.MustCompile(regexp.QuoteMeta(want)).Match(page) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// prediction contains the fields of weir doctor's report that the test reads.
type prediction struct {
	Clients []struct {
		Agent string
		Cost  struct{ Requests, Bytes, CPUSeconds float64 }
	}
	Sizes    []predictedSize
	Findings []struct {
		Kind   string
		WhatIf []struct {
			Remedy     string
			CPUSeconds float64
		}
	}
	Restart struct {
		Whole     bool
		PeakBytes []float64
	}
}

type predictedSize struct {
	Resource, ObjectsFrom, BytesFrom string
	Objects, Bytes                   float64
}

// check compares the predicted CPU time with spent, the CPU seconds that the server used. It also
// checks the number of pods, the finding, and the prediction for a restart of all clients.
func (p *prediction) check(t *testing.T, spent float64) {
	t.Helper()
	for _, client := range p.Clients {
		if client.Agent != "poller/v1.0" {
			continue
		}
		t.Logf("%d LISTs of %d pods: %.2f s CPU, predicted %.2f s", predictedLists, predictedPods, spent, client.Cost.CPUSeconds)
		if off := client.Cost.CPUSeconds / spent; off < 1.0/predictedOff || off > predictedOff {
			t.Errorf("%.2f s CPU, predicted %.2f s", spent, client.Cost.CPUSeconds)
		}
	}
	if n := slices.IndexFunc(p.Sizes, func(s predictedSize) bool { return s.Resource == "pods" }); n < 0 || p.Sizes[n].Objects != predictedPods ||
		p.Sizes[n].ObjectsFrom != "server" || p.Sizes[n].Bytes < 1000 {
		t.Errorf("%+v", p.Sizes)
	}
	if f := p.Findings; len(f) != 1 || f[0].Kind != "polling" || len(f[0].WhatIf) < 3 || f[0].WhatIf[0].Remedy != "as it is" {
		t.Errorf("%+v", f)
	}
	if r := p.Restart; !r.Whole || len(r.PeakBytes) == 0 || r.PeakBytes[0] < 100e6 {
		t.Errorf("%+v", r)
	}
}

// pollInProtobuf LISTs all pods in protobuf, as Kubernetes' own programs do.
func (s *script) pollInProtobuf(times int) {
	config := s.config("poller")
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	s.fatal(err)
	for range times {
		_, err := client.CoreV1().Pods("").List(s.ctx, metav1.ListOptions{})
		s.fatal(err)
	}
}

// cpu returns the CPU time, in seconds, that the API server has used.
func (s *script) cpu() float64 {
	seconds, ok := s.metric(`process_cpu_seconds_total`)
	if !ok {
		s.t.Fatal("no process_cpu_seconds_total")
	}
	return seconds
}

// countOften is a flag that makes an API server count its objects every second. By default it
// counts every minute. Then, if its cache is not filled at the first count, the metric has no
// number for the first minute.
const countOften = "--etcd-count-metric-poll-period=1s"

// countedAll waits until the API server reports this number of pods. The server must run with
// countOften.
func (s *script) countedAll(pods float64) {
	s.t.Helper()
	testenv.EventuallyNoError(s.t, s.ctx, fmt.Sprintf("the API server counts %v pods", pods), func() error {
		n, _ := s.metric(`apiserver_resource_objects\{group="",resource="pods"\}`)
		if n != pods {
			return fmt.Errorf("it counts %v", n)
		}
		return nil
	})
}

// metric returns the value of the API server's first metric whose name and labels match the regular
// expression name.
func (s *script) metric(name string) (value float64, ok bool) {
	metrics, err := s.client("metrics").CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(s.ctx)
	s.fatal(err)
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(metrics)
	if found == nil {
		return 0, false
	}
	value, err = strconv.ParseFloat(string(found[1]), 64)
	s.fatal(err)
	return value, true
}
