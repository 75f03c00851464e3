// Command prometheus runs Prometheus' service discovery for the pods of a cluster. It reports the
// targets that Prometheus would scrape (see package report).
package main

import (
	"context"
	"maps"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() { report.Main(run) }

func run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := kubernetes.DefaultSDConfig
	config.Role, config.KubeConfig = kubernetes.RolePod, os.Getenv("KUBECONFIG")
	registry := prometheus.NewRegistry()
	metrics := config.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry))
	if err := metrics.Register(); err != nil {
		return err
	}
	discoverer, err := config.NewDiscoverer(discovery.DiscovererOptions{Metrics: metrics})
	if err != nil {
		return err
	}
	var t targets
	groups := make(chan []*targetgroup.Group)
	go discoverer.Run(ctx, groups)
	go t.take(ctx, groups)
	return report.Serve(report.Knowledge{Count: t.count, All: t.all})
}

// targets are the groups of targets that Prometheus would scrape, by source: one group for each
// pod.
type targets struct {
	mu    sync.Mutex
	known map[string]any
}

// take receives groups of targets until ctx ends. A new group replaces the previous group of the
// same source. An empty group removes it.
func (t *targets) take(ctx context.Context, groups <-chan []*targetgroup.Group) {
	for {
		select {
		case <-ctx.Done():
			return
		case came := <-groups:
			t.mu.Lock()
			if t.known == nil {
				t.known = map[string]any{}
			}
			for _, g := range came {
				if t.known[g.Source] = [...]any{g.Targets, g.Labels}; len(g.Targets) == 0 {
					delete(t.known, g.Source)
				}
			}
			t.mu.Unlock()
		}
	}
}

func (t *targets) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}

func (t *targets) all() map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.known)
}
