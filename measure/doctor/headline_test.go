package doctor

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// TestHeadline checks which client is in the headline, its share, and why it has no finding.
func TestHeadline(t *testing.T) {
	const polls = "100 every 30s: poller list pods took=300ms"
	for _, tt := range []struct {
		name  string
		o     Options
		lines []string
		who   string
		work  string
		share float64
		read  int64
		finds string // the kind of its finding, or a part of Why
	}{
		{"time", Options{}, []string{polls, "10 every 1m: slow list nodes took=1s query=limit=500"}, "poller", WorkTime, 0.75, 0, FindingPolling},
		{"CPU", plainly(), []string{polls, "10 every 1m: slow list nodes took=9s"}, "poller", WorkCPU, -1, 1_000_000, FindingPolling},
		{"unknown size", plainly(), []string{polls, "10 every 1m: slow list widgets took=9s"}, "slow", WorkTime, 0.75, 0, "below the limits"},
		{"writes", plainly(), []string{"4000 every 300ms: a update configmaps ns=shop object=web", "4000 every 300ms: b update configmaps ns=shop object=web at=100ms",
			"20 every 1ms: watcher watch configmaps query=resourceVersion=7&watch=true took=20m machines=20", "1 every 1s: lister list pods"}, "a", WorkCPU, -1, 0, FindingFight},
		{"requests", Options{}, []string{"30 every 1s: reader get pods ns=shop object={i}", "10 every 1s: other get pods"}, "reader", WorkRequests, 0.75, 0, "sends no LISTs"},
		{"start", Options{}, []string{"40 every 1h: agent list pods machines=40 took=1s query=limit=500&resourceVersion=0"}, "agent", WorkTime, 1, 0, "about once"},
		{"server", Options{}, []string{"400 every 3m: kube-apiserver list services user=system:apiserver"}, "kube-apiserver", WorkTime, 1, 0, "to themselves"},
		{"person", Options{}, []string{"9 every 10m: person list pods agent=kubectl query=limit=500"}, "kubectl", WorkTime, 1, 0, "people"},
		{"failed", Options{}, []string{"9 every 10m: broken list widgets code=500"}, "broken", WorkTime, 1, 0, "cannot replace"},
		{"metrics", Options{}, []string{"400 every 1s: hpa list pods.metrics.k8s.io"}, "hpa", WorkTime, 1, 0, "cannot replace"},
		{"rare", Options{}, []string{"9 every 1h: rare list pods took=1s"}, "rare", WorkTime, 1, 0, "below the limits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := examine(t, tt.o, playing(t, tt.lines...).log())
			h := r.Headline
			if h == nil || !strings.HasPrefix(h.Client.Agent, tt.who+"/") || h.Work != tt.work || h.Objects != tt.read ||
				tt.share >= 0 && math.Abs(h.Share-tt.share) > 0.001 || h.Share <= 0.5 || h.Share > 1 {
				t.Fatalf("%+v", h)
			}
			if h.Finding >= 0 {
				check.Equal(t, r.Findings[h.Finding].Kind+h.Why, tt.finds, "finding")
			} else if !strings.Contains(h.Why, tt.finds) {
				t.Errorf("why: %s", h.Why)
			}
		})
	}
	check.Equal(t, New(Options{}).Report().Headline, nil, "the headline of an empty report")
}

// TestHeadlineOthers checks that the headline does not compare CPU if clients that are not counted
// separately sent LISTs: their CPU is unknown, so that the share would be too large.
func TestHeadlineOthers(t *testing.T) {
	d := New(plainly())
	d.clients.limit = 8
	e := &evidence.Event{Stage: []byte(evidence.StageResponseComplete), Verb: []byte("list"), Code: 200, Object: evidence.Object{Resource: []byte("pods")}}
	for i := range 1000 {
		e.Staged, e.User, e.AuditID = int64(i+1)*1e6, fmt.Append(nil, "user-", i), fmt.Append(nil, "id-", i)
		e.Received = e.Staged - 5e5
		d.Add(e)
	}
	h := d.Report().Headline
	if h == nil || h.Work != WorkTime || h.Share > 0.01 {
		t.Errorf("%+v", h)
	}
}
