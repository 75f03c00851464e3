package servers

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"
)

// NodeAgents returns the incident of an agent on each node that gets the pods at its start, all
// after one rollout. The agents LIST everything, current or as the cache has it; they LIST the pods
// of their node; or they LIST everything through the proxy.
func NodeAgents() Replay {
	everything := func(*trial, int) string { return "" }
	return Replay{Every: 100 * time.Millisecond, Ways: []Way{
		{Label: `LIST of all, ""`, load: agents(everything)},
		{Label: `LIST of all, "0"`, load: agents(func(*trial, int) string { return "resourceVersion=0" })},
		{Label: "by field selector", load: agents(func(t *trial, i int) string {
			return "resourceVersion=0&fieldSelector=" + url.QueryEscape("spec.nodeName="+t.pods.nodes[i%len(t.pods.nodes)])
		})},
		{Label: "through weir-proxy", Proxy: true, load: agents(everything)},
	}}
}

// agents returns the load of agents that each make one LIST of a query.
func agents(query func(t *trial, i int) string) func(context.Context, *trial, func() error) (Figures, error) {
	return func(ctx context.Context, t *trial, begin func() error) (Figures, error) {
		if len(t.pods.nodes) == 0 {
			return nil, errors.New("no pod is on a node")
		}
		if err := begin(); err != nil {
			return nil, err
		}
		var bytes atomic.Int64
		f, err := t.allAtOnce(ctx, t.Kubelets, func(ctx context.Context, c *client, i int) error {
			n, err := c.discard(ctx, request{path: podsPath, query: query(t, i)})
			bytes.Add(n)
			return err
		})
		if err != nil {
			return nil, err
		}
		f["bytes"] = float64(bytes.Load())
		return f, nil
	}
}
