package main

import (
	"bytes"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// TestDoctorOfEmbeddedServer checks that doctor finds a client that polls in the audit log and in
// the metrics of the embedded server.
func TestDoctorOfEmbeddedServer(t *testing.T) {
	const lists, pods = 120, 200
	var log lockedBuffer
	server := startPlain(t, apiserver.Options{Pods: pods, Seed: 1, AuditLog: &log})
	reader, err := newMetricsReader(server.Config())
	check.NoError(t, err)
	defer reader.close()
	before, err := reader.read(t.Context())
	check.NoError(t, err)
	cfg := server.Config()
	cfg.UserAgent = "poller/v1"
	client, err := kubernetes.NewForConfig(cfg)
	check.NoError(t, err)
	for range lists {
		list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		check.NoError(t, err)
		check.Equal(t, len(list.Items), pods, "pods")
	}
	after, err := reader.read(t.Context())
	check.NoError(t, err)

	now := float64(time.Now().UnixNano()) / 1e9
	compared, err := evidence.CompareMetrics(before, after, 1, now)
	check.NoError(t, err)
	live := doctor.NewLive(compared)
	if len(live.Findings) != 1 || live.Findings[0].Kind != doctor.FindingFull || live.Findings[0].Resource != "pods" || live.Findings[0].Count != lists {
		t.Errorf("in the metrics: %+v", live.Findings)
	}
	for _, r := range live.Resources {
		if r.Name == "pods" && (r.Objects != pods || r.Bytes < pods*1000 || r.Lists != lists || r.ListSeconds <= 0 || r.ListBytes < lists*pods || r.Returned() != lists*pods) {
			t.Errorf("%+v", r)
		}
	}

	d := doctor.New(doctor.Options{})
	events, err := evidence.NewLog("log", bytes.NewReader(log.bytes()))
	check.NoError(t, err)
	for e, err := events.Next(); err == nil; e, err = events.Next() {
		d.Add(e)
	}
	check.Equal(t, events.Counts().Malformed, int64(0), "malformed lines")
	found := d.Report().Findings
	if len(found) != 1 || found[0].Kind != doctor.FindingPolling || found[0].Client.Agent != "poller/v1" || found[0].Resource != "pods" || found[0].Count != lists {
		t.Errorf("in the log: %+v", found)
	}
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
