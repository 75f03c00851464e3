package servers

import (
	"context"
	"net/url"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
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
