package servers

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

var herd = Scenario{
	Name: "herd", Runs: 1, measure: measureHerd,
	Short: "Many clients that start at the same time and read all current pods, as client-go does by default",
	figures: []figures.Figure{
		figures.New("apiserverCPUSeconds", "herd: kube-apiserver's CPU", figures.Seconds).RatioAtMost(0.02),
		figures.New("seconds", "  time until all have all pods", figures.Seconds).RatioAtMost(0.3),
		figures.New("cpuSeconds", "  CPU of the server", figures.Seconds),
		figures.New("upstream", "  LISTs and WATCHes sent upstream", figures.Count).AtMost(0),
		figures.New("proofs", "  requests that prove currentness", figures.Count),
		figures.New("clients", "  clients", figures.Count),
	},
}

const (
	// watchFromNothing is the query of the first WATCH of informers of client-go 0.35 and later.
	watchFromNothing = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	// maxHerded limits the number of events of all clients together. Otherwise a kube-apiserver with
	// many pods would be busy for minutes.
	maxHerded = 2_000_000
)

// measureHerd measures clients that start at the same time, each over a separate connection. The
// clients discard the objects that they receive.
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
	before := figures.Must(t.metrics(ctx, upstreamMetric, proofsMetric))
	f["apiserverCPUSeconds"] = t.direct.spent(ctx, func() { f["cpuSeconds"] = t.spent(ctx, start) })
	after := figures.Must(t.metrics(ctx, upstreamMetric, proofsMetric))
	f["upstream"], f["proofs"] = after[ofCallers]-before[ofCallers], after.sum(proofsMetric)-before.sum(proofsMetric)
	return f
}

const proofsMetric = "weir_proxy_proofs_total"

// startHerd starts the clients and returns when each of them has received all pods. If one client
// fails, it disconnects the other ones.
func (t *trial) startHerd(ctx context.Context, clients int) {
	all, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		all.Go(func() error {
			return figures.Attempt(func() {
				c := t.client()
				defer c.close()
				figures.Check(joinByWatch(ctx, c, i))
			})
		})
	}
	figures.Check(all.Wait())
}
