package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	FindingNodes = "nodes"

	// Deployments have fewer replicas, and clusters with fewer nodes do not have this problem.
	// Machines count if they LIST within the same hour, because a deployment with rollouts, or jobs,
	// may have as many in a week.
	nodePlaces   = 20
	nodeResource = "pods" // it grows with the nodes, so that reading all grows with their square
)

var nodesKind = &kind{
	name:     FindingNodes,
	does:     "LISTs all pods from each of many machines",
	from:     "20 machines within an hour",
	incident: "node-agents",
	find:     findNodes,
	change: func(a api, _ *usage) string {
		return a.client() + `.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + os.Getenv("NODE_NAME"), ` +
			`ResourceVersion: "0"})`
	},
	remedies: []remedy{byNode, cached, inPages, shardedByMachine, proxied},
}

// findNodes finds LISTs of all pods by each node.
func findNodes(u subject) (Finding, bool) {
	p := u.whole
	if p == nil || p.spread == nil || max(p.spread.most, p.spread.places.count()) < nodePlaces {
		return Finding{}, false
	}
	return Finding{
		Count: p.count, Seconds: p.latency.Seconds(), whole: p.count,
		Text: fmt.Sprintf("LISTs all %s from about %s machines: %s LISTs%s", u.resource,
			humanize.Count(p.machines()), humanize.Count(p.count), p.sort()),
		Remedy: "ask with fieldSelector=spec.nodeName=NODE, or have one replica ask for all",
	}, true
}
