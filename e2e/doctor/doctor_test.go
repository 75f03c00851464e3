package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// deadline bounds every wait. It is long because no test measures time against it.
const deadline = 5 * time.Minute

// policy is the smallest audit policy that weir doctor can use.
const policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"

// TestDoctor checks that weir doctor reports the clients of a real kube-apiserver that cost more
// than necessary, each with the expected finding. It must report no other client: no client of
// kube-apiserver itself, no informer, and no client that LISTs occasionally.
func TestDoctor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dir := t.TempDir()
	log, rules := filepath.Join(dir, "audit.log"), filepath.Join(dir, "policy.yaml")
	check.NoError(t, os.WriteFile(rules, []byte(policy), 0o600))
	c, err := cluster.Start(ctx, cluster.Options{
		APIServerArgs: []string{"--audit-log-path=" + log, "--audit-policy-file=" + rules},
		Pods:          podsim.New(100, 1),
		Logf:          t.Logf,
	})
	check.NoError(t, err)
	defer c.Stop()
	s := script{t, ctx, c}
	s.poll(120)
	s.seek(1000)
	s.relist(30)
	s.inform()
	s.look(5)

	report := examine(t, log)
	found := map[string]string{}
	for _, f := range report.Findings {
		name, _, _ := strings.Cut(f.Client.Agent, "/")
		found[name] = f.Kind + " " + f.Resource
	}
	want := map[string]string{
		"poller":   doctor.FindingPolling + " pods",
		"seeker":   doctor.FindingPart + " pods",
		"relister": doctor.FindingRelist + " configmaps",
	}
	if !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	s.counted(report)
}

// script sends the requests of simulated clients.
type script struct {
	t   *testing.T
	ctx context.Context
	c   *cluster.Cluster
}

// config returns the client configuration of a program. name starts its User-Agent.
func (s *script) config(name string) *rest.Config {
	config := rest.CopyConfig(s.c.Config())
	config.UserAgent = name + "/v1.0 (linux/amd64) kubernetes/0f1e2d3"
	config.QPS = -1
	return config
}

func (s *script) client(name string) kubernetes.Interface {
	s.t.Helper()
	client, err := kubernetes.NewForConfig(s.config(name))
	s.fatal(err)
	return client
}

func (s *script) fatal(err error) {
	s.t.Helper()
	check.NoError(s.t, err)
}

// poll LISTs all pods again and again.
func (s *script) poll(times int) {
	pods := s.client("poller").CoreV1().Pods("")
	for range times {
		_, err := pods.List(s.ctx, metav1.ListOptions{})
		s.fatal(err)
	}
}

// seek LISTs the pods of one app per request.
func (s *script) seek(times int) {
	pods := s.client("seeker").CoreV1().Pods("")
	for i := range times {
		_, err := pods.List(s.ctx, metav1.ListOptions{LabelSelector: fmt.Sprint("app=web-", i%7), ResourceVersion: "0"})
		s.fatal(err)
	}
}

// relist repeats a LIST and a WATCH that ends immediately.
func (s *script) relist(times int) {
	configs := s.client("relister").CoreV1().ConfigMaps("")
	for range times {
		list, err := configs.List(s.ctx, metav1.ListOptions{ResourceVersion: "0"})
		s.fatal(err)
		w, err := configs.Watch(s.ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		s.fatal(err)
		w.Stop()
	}
}

// inform runs an informer until it is synced.
func (s *script) inform() {
	inf, err := weir.NewInformer[*corev1.Pod](s.config("informed"), weir.Options{})
	s.fatal(err)
	ctx, stop := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }()
	s.fatal(inf.WaitForSync(ctx))
	stop()
	<-done
}

// look LISTs nodes, as a person does with kubectl.
func (s *script) look(times int) {
	nodes := s.client("person").CoreV1().Nodes()
	for range times {
		_, err := nodes.List(s.ctx, metav1.ListOptions{Limit: 500})
		s.fatal(err)
	}
}

// counted checks that the report has the number of LISTs that the script's clients sent.
func (s *script) counted(r *doctor.Report) {
	lists := map[string]int64{}
	for _, c := range r.Clients {
		name, _, _ := strings.Cut(c.Agent, "/")
		lists[name] += c.Lists
	}
	for name, want := range map[string]int64{"poller": 120, "seeker": 1000, "relister": 30, "person": 5} {
		check.Equal(s.t, lists[name], want, "%s made %d LISTs, counted", name, want)
	}
}

// examine reads an audit log, to which the server may still write, and returns the report.
func examine(t *testing.T, log string) *doctor.Report {
	t.Helper()
	logs, err := evidence.NewMerge([]string{log}, nil)
	check.NoError(t, err)
	defer logs.Close()
	d := doctor.New(doctor.Options{})
	for {
		e, err := logs.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check.NoError(t, err)
		d.Add(e)
	}
	if counts := logs.Counts(); counts.Malformed+counts.TooLong > 0 {
		t.Errorf("lines skipped: %+v", counts)
	}
	return d.Report()
}
