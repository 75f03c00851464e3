package servers

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// The options of the incidents whose costs are compared with predictions. They are similar to the
// options of weir lab.
const (
	checkedObjects  = 150_000 // the most objects that all clients together receive
	checkedPatience = 2 * time.Minute
	stormPatience   = 30 * time.Second // only LISTs that are answered within this time are compared
	checkedResync   = 2 * time.Second
)

const stormName = "resync-storm"

// checkedIncident is an incident whose cost is compared with predictions.
type checkedIncident struct {
	name   string
	replay Replay
	// works has one Work for each of the replay's ways: what one client's request costs the server
	// that answers it. A way whose Work is zero is not compared.
	works []cost.Work
}

// checkedIncidents returns the incidents whose cost is compared with the predictions of m, on a
// server with the pods p.
func checkedIncidents(m *cost.Model, p *serverPods) []checkedIncident {
	objects, size := float64(len(p.keys)), m.Measured.ObjectBytes
	all, onNode := objects*size, objects/float64(max(1, len(p.nodes)))
	perApp := objects / float64(max(1, len(p.apps))) * size
	quorum := cost.Work{Requests: 1, Connections: 1, Quorum: 1, Sent: all}
	cached := cost.Work{Requests: 1, Connections: 1, Sent: all}
	initial := cost.Work{Requests: 1, Connections: 1, Quorum: 1, Sent: all, Encoding: cost.Initial}
	label := cost.Work{Requests: 1, Looked: objects, Sent: perApp}
	current := label
	current.Quorum = 1
	return []checkedIncident{
		{"node-agents", NodeAgents(), []cost.Work{
			quorum, cached, {Requests: 1, Connections: 1, Looked: onNode, Sent: onNode * size}, quorum,
		}},
		{"thundering-restart", ThunderingRestart(), []cost.Work{cached, initial, initial}},
		{stormName, ResyncStorm(), []cost.Work{current, label, label, label, {}}},
	}
}

// compareIncidents replays the incidents, and compares their cost with the predictions of m.
func compareIncidents(ctx context.Context, o Options, m *cost.Model) []cost.Check {
	b := figures.Must(Open(ctx, o))
	incidents := checkedIncidents(m, b.pods)
	clients := max(2, min(o.Herd, checkedObjects/b.Pods()))
	b.Close()
	o.Kubelets, o.Herd, o.Resync = clients, clients, cmp.Or(o.Resync, checkedResync)
	checks := []cost.Check{}
	for _, i := range incidents {
		if o.Patience = checkedPatience; i.name == stormName {
			o.Patience = stormPatience
		}
		n := 0
		err := i.replay.Run(ctx, o, func(done figures.Traced) {
			checks = append(checks, i.compare(m, i.replay.Ways[n], i.works[n], done.Figures)...)
			n++
			fmt.Fprintf(o.Progress, "%s, %s: %s CPU\n", i.name, done.Label, humanize.Seconds(done.Figures["cpuSeconds"]))
		})
		figures.Check(err, i.name)
	}
	return checks
}

// compare compares the cost of one way of the incident with the prediction for the same number of
// requests. It returns nil if the way is not compared, or if some clients have given up.
func (i checkedIncident) compare(m *cost.Model, w Way, each cost.Work, f Figures) []cost.Check {
	if each.Requests == 0 || f["up"] < f["clients"] { // clients that gave up have no figures
		return nil
	}
	var checks []cost.Check
	n := f["requests"]
	if w.Proxy { // the API server did not receive all requests of the clients
		n = f["clients"] + f["calls"]
	}
	each.Requests, each.Connections, each.Quorum = n, n*each.Connections, n*each.Quorum
	add := func(figure string, want, got float64) {
		c := cost.Check{Incident: i.name, Way: w.Label, Figure: figure, Want: want, Got: got}
		checks = append(checks, c)
	}
	server, figure, cpu := &m.Server, cost.CPUFigure, f["cpuSeconds"]
	if w.Proxy {
		server, figure, cpu = &m.Proxy, cost.ProxyCPUFigure, f["proxyCPUSeconds"]
	}
	c := server.Of(each)
	add(figure, cpu, c.CPUSeconds+server.Idle*f["seconds"])
	if bytes, known := f["bytes"]; known {
		add(cost.BytesFigure, bytes, c.Bytes)
	}
	if !w.Proxy && each.Looked == 0 {
		rest := f["peakRSSBytes"] - f["rssGrowthBytes"]
		add(cost.PeakFigure, f["peakRSSBytes"], rest+m.Memory.Growth(rest, n*each.Sent))
	}
	return checks
}

// cpuName returns the processor's name from Linux, or "" if the system does not report one.
func cpuName() string {
	fs, _ := procfs.NewDefaultFS() // other systems have no /proc
	if cpus, _ := fs.CPUInfo(); len(cpus) > 0 {
		return cpus[0].ModelName
	}
	return ""
}

// checkPages compares the cost of a LIST in pages with its prediction.
func (m *costMeter) checkPages(ctx context.Context, model *cost.Model) []cost.Check {
	size := 0.0
	spent := m.each(ctx, func() error { return figures.Attempt(func() { size = m.pages(ctx) }) })
	objects := float64(model.Measured.Objects)
	c := model.Server.Of(cost.Work{
		Requests: 1, Quorum: 1, PageCount: math.Ceil(objects / pageSize),
		Sent: objects * model.Measured.ObjectBytes,
	})
	const what, way = "a LIST", "in pages of 500"
	return []cost.Check{
		{Incident: what, Way: way, Figure: cost.CPUFigure, Want: spent, Got: c.CPUSeconds},
		{Incident: what, Way: way, Figure: cost.BytesFigure, Want: size, Got: c.Bytes},
	}
}

// pages sends a LIST of all pods in pages, which the server reads from etcd. It returns the number
// of received bytes.
func (m *costMeter) pages(ctx context.Context) (size float64) {
	query := fmt.Sprint("limit=", pageSize)
	for token := ""; ; {
		answer := figures.Must(m.c.do(ctx, request{path: podsPath, query: query + token}))
		list, _, err := readList(answer.Body)
		figures.Check(err)
		if size += float64(list.Offset()); list.Meta().Continue == "" {
			return size
		}
		token = "&continue=" + url.QueryEscape(list.Meta().Continue)
	}
}
