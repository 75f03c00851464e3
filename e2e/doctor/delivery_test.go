package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	deliveredPods  = 1500 // the audit event of a LIST then exceeds evidence.MaxLine
	deliveredLists = 3
	webhook        = `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"c","cluster":{"server":%q}}],` +
		`"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
)

// TestDelivery uses an audit policy of level RequestResponse, whose events contain the LISTs'
// results. These events are longer than evidence.MaxLine, which limits only the fields that weir
// doctor stores. The test checks that weir doctor finds the same LISTs in the audit log and in the
// events sent to a webhook. weir doctor must count these LISTs for the impersonated user.
func TestDelivery(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dir := t.TempDir()
	log, sent := filepath.Join(dir, "audit.log"), filepath.Join(dir, "sent.json")
	out, err := os.Create(sent)
	check.NoError(t, err)
	var mu sync.Mutex
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := io.Copy(out, r.Body); err != nil {
			t.Error(err)
		}
	}))
	defer sink.Close()
	rules, config := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "webhook.json")
	for path, text := range map[string]string{
		rules: "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: RequestResponse, " +
			"resources: [{resources: [pods]}], verbs: [list]}, {level: Metadata}]\n",
		config: fmt.Sprintf(webhook, sink.URL),
	} {
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	c, err := cluster.Start(ctx, cluster.Options{
		APIServerArgs: []string{"--audit-log-path=" + log, "--audit-policy-file=" + rules, "--audit-webhook-config-file=" + config,
			"--audit-webhook-mode=blocking"},
		Pods: podsim.New(deliveredPods, 1), Logf: t.Logf,
	})
	check.NoError(t, err)
	s := script{t, ctx, c}
	as := s.config("poller")
	as.Impersonate = rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(as)
	s.fatal(err)
	for range deliveredLists {
		_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		s.fatal(err)
	}
	c.Stop()
	mu.Lock()
	defer mu.Unlock()
	s.fatal(out.Close())
	for _, path := range []string{log, sent} {
		delivered(t, path)
	}
}

// delivered checks that the log at path has all LISTs of the impersonated user.
func delivered(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Size() < deliveredLists*evidence.MaxLine {
		t.Fatalf("%s is too small: %v", path, err)
	}
	logs, err := evidence.NewMerge([]string{path}, nil)
	check.NoError(t, err)
	defer logs.Close()
	d := doctor.New(doctor.Options{})
	for err == nil {
		var e *evidence.Event
		if e, err = logs.Next(); err == nil {
			d.Add(e)
		}
	}
	counts := logs.Counts()
	if !errors.Is(err, io.EOF) || !counts.Complete() {
		t.Errorf("%s: %v, %+v", path, err, counts)
	}
	for _, client := range d.Report().Clients {
		if client.User == "jane" {
			if client.Lists != deliveredLists || client.Via == "" {
				t.Errorf("%s: %+v", path, client)
			}
			return
		}
	}
	t.Errorf("%s: the impersonated user is not named", path)
}
