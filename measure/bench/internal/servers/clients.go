package servers

import (
	"context"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirproject/weir/measure/bench/internal/attempt"
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
func measureUpstream(ctx context.Context, t *trial) Figures {
	clients := t.Clients
	f := Figures{"clients": float64(clients)}
	if !t.weir() {
		const each = 2 // a LIST and a WATCH
		f["requestsForOne"], f["requestsForAll"], f["more"] = each, float64(each*clients), float64(each*(clients-1))
		return f
	}
	requests := func(clients int) float64 {
		t.listAndWatch(ctx, clients)
		m := attempt.Must(t.metrics(ctx, upstreamMetric))
		return m[ofItsOwn] + m[ofCallers]
	}
	f["requestsForOne"] = requests(1)
	f["requestsForAll"] = requests(clients)
	f["more"] = f["requestsForAll"] - f["requestsForOne"]
	return f
}

// listAndWatch lets clients list the pods of an app each, and watch them for a moment.
func (t *trial) listAndWatch(ctx context.Context, clients int) {
	now := t.resourceVersion(ctx)
	c := t.client()
	defer c.close()
	queries := make([]string, clients)
	for i := range queries {
		selector := ""
		if len(t.pods.apps) > 0 {
			selector = "&labelSelector=" + url.QueryEscape(t.pods.apps[i%len(t.pods.apps)])
		}
		attempt.Must(countList(ctx, c, "resourceVersion=0"+selector))
		queries[i] = watchFrom(now) + selector
	}
	w := t.openWatchers(ctx, queries)
	defer w.stop()
	attempt.Check(pause(ctx, t.Cheap))
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
func measureHerd(ctx context.Context, t *trial) Figures {
	clients := max(1, min(t.Herd, maxHerded/max(1, len(t.pods.keys))))
	f := Figures{"clients": float64(clients)}
	start := func() {
		begun := time.Now()
		t.startHerd(ctx, clients)
		f["seconds"] = time.Since(begun).Seconds()
	}
	if !t.weir() {
		cpu := t.spent(ctx, start)
		f["apiserverCPUSeconds"], f["cpuSeconds"], f["upstream"] = cpu, cpu, float64(clients)
		return f
	}
	before := attempt.Must(t.metrics(ctx, upstreamMetric, proofsMetric))
	f["apiserverCPUSeconds"] = t.direct.spent(ctx, func() { f["cpuSeconds"] = t.spent(ctx, start) })
	after := attempt.Must(t.metrics(ctx, upstreamMetric, proofsMetric))
	f["upstream"], f["proofs"] = after[ofCallers]-before[ofCallers], after.sum(proofsMetric)-before.sum(proofsMetric)
	return f
}

const proofsMetric = "weir_proxy_proofs_total"

// startHerd starts the clients and returns when each has received all pods. If one fails, the
// others are cut off.
func (t *trial) startHerd(ctx context.Context, clients int) {
	all, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		all.Go(func() error {
			return attempt.Do(func() {
				c := t.client()
				defer c.close()
				attempt.Check(joinByWatch(ctx, c, i))
			})
		})
	}
	attempt.Check(all.Wait())
}
