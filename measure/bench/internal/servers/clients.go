package servers

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

var upstreamRequests = Scenario{
	Name: "upstream", Runs: 1, measure: measureUpstream,
	Short: "Requests that reach kube-apiserver while one client lists and watches, and while many do",
	figures: []boundedFigure{
		{figures.New("requestsForOne", "upstream requests, one client", figures.Count), anything},
		{figures.New("requestsForAll", "  many clients", figures.Count), anything},
		{figures.New("more", "  more than for one", figures.Count), atMost(0)},
		{figures.New("clients", "  clients", figures.Count), anything},
	},
}

// measureUpstream counts all requests for pods that the proxy has made since its start. Each client
// of kube-apiserver makes its own.
func measureUpstream(ctx context.Context, t *trial) (Figures, error) {
	clients := t.Clients
	f := Figures{"clients": float64(clients)}
	if !t.weir() {
		const each = 2 // a LIST and a WATCH
		f["requestsForOne"], f["requestsForAll"], f["more"] = each, float64(each*clients), float64(each*(clients-1))
		return f, nil
	}
	for _, step := range []struct {
		clients int
		key     string
	}{{1, "requestsForOne"}, {clients, "requestsForAll"}} {
		if err := t.listAndWatch(ctx, step.clients); err != nil {
			return nil, err
		}
		m, err := t.metrics(ctx, upstreamMetric)
		if err != nil {
			return nil, err
		}
		f[step.key] = m[ofItsOwn] + m[ofCallers]
	}
	f["more"] = f["requestsForAll"] - f["requestsForOne"]
	return f, nil
}

// listAndWatch lets clients list the pods of an app each, and watch them for a moment.
func (t *trial) listAndWatch(ctx context.Context, clients int) error {
	queries := make([]string, clients)
	now, err := t.resourceVersion(ctx)
	if err != nil {
		return err
	}
	c, err := t.client()
	if err != nil {
		return err
	}
	defer c.close()
	for i := range queries {
		selector := ""
		if len(t.pods.apps) > 0 {
			selector = "&labelSelector=" + url.QueryEscape(t.pods.apps[i%len(t.pods.apps)])
		}
		if _, err := countList(ctx, c, "resourceVersion=0"+selector); err != nil {
			return err
		}
		queries[i] = watchFrom(now) + selector
	}
	w, err := t.openWatchers(ctx, queries)
	if err != nil {
		return err
	}
	defer w.stop()
	timer := time.NewTimer(t.Cheap)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var herd = Scenario{
	Name: "herd", Runs: 1, measure: measureHerd,
	Short: "Many clients that start at once and get all pods as they are now, as client-go does by default",
	figures: []boundedFigure{
		{figures.New("apiserverCPUSeconds", "herd: kube-apiserver's CPU", figures.Seconds), ratio(0.02)},
		{figures.New("seconds", "  time until all have all pods", figures.Seconds), ratio(0.3)},
		{figures.New("cpuSeconds", "  CPU of the server that they ask", figures.Seconds), anything},
		{figures.New("upstream", "  LISTs and WATCHes that went upstream", figures.Count), atMost(0)},
		{figures.New("proofs", "  questions how current it is", figures.Count), anything},
		{figures.New("clients", "  clients", figures.Count), anything},
	},
}

const (
	// watchFromNothing is what client-go's informers begin with since 0.35.
	watchFromNothing = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	// maxHerded bounds the events of all clients together: else a kube-apiserver of many pods has
	// minutes to do.
	maxHerded = 2_000_000
)

// measureHerd makes clients start at once, each with a connection of its own. They throw away what
// they get.
func measureHerd(ctx context.Context, t *trial) (Figures, error) {
	clients := max(1, min(t.Herd, maxHerded/max(1, len(t.pods.keys))))
	before, err := t.herdMetrics(ctx)
	if err != nil {
		return nil, err
	}
	begin, cpu := time.Now(), 0.0
	apiserver, err := t.direct.spent(ctx, func() (err error) {
		if !t.weir() {
			return t.startHerd(ctx, clients)
		}
		cpu, err = t.spent(ctx, func() error { return t.startHerd(ctx, clients) })
		return err
	})
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	after, err := t.herdMetrics(ctx)
	if err != nil {
		return nil, err
	}
	f := Figures{"apiserverCPUSeconds": apiserver, "seconds": took.Seconds(), "cpuSeconds": cpu, "clients": float64(clients)}
	if !t.weir() {
		f["cpuSeconds"], f["upstream"] = apiserver, float64(clients)
		return f, nil
	}
	f["upstream"], f["proofs"] = after[ofCallers]-before[ofCallers], after.sum(proofsMetric)-before.sum(proofsMetric)
	return f, nil
}

const proofsMetric = "weir_proxy_proofs_total"

// herdMetrics returns what a proxy counts of its requests, or nil for a kube-apiserver.
func (t *trial) herdMetrics(ctx context.Context) (samples, error) {
	if !t.weir() {
		return nil, nil
	}
	return t.metrics(ctx, upstreamMetric, proofsMetric)
}

// startHerd starts the clients and returns when each has received all pods. If one fails, the
// others are cut off.
func (t *trial) startHerd(ctx context.Context, clients int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c, err := t.client()
			if err != nil {
				cancel(err)
				return
			}
			defer c.close()
			if err := joinByWatch(ctx, c, 0); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
