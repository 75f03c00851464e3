package servers

import (
	"context"
	"errors"
	"net/url"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/internal/wire"
)

// watchersFigures returns the figures of a scenario with many watchers. Weir's resident set may
// grow by at most grows bytes.
func watchersFigures(label string, grows float64) []boundedFigure {
	return []boundedFigure{
		{figures.New("closed", label+": closed", figures.Count), atMost(0)},
		{figures.New("cpuCores", "  CPU, cores", figures.Number), ratio(0.5)},
		{figures.New("rssGrowthBytes", "  RSS grows by", figures.Bytes), atMost(grows)},
		{figures.New("peakRSSBytes", "  peak RSS", figures.Bytes), anything},
		{figures.New("openCPUSeconds", "  CPU to open them all", figures.Seconds), anything},
		{figures.New("watchers", "  watchers", figures.Count), anything},
		{figures.New("events", "  events that they got", figures.Count), anything},
		{figures.New("updatesPerSecond", "  updates a second", figures.Number), anything},
	}
}

var kubelets = Scenario{
	Name: "kubelets", Runs: 1, Writes: true, measure: measureKubelets,
	Short:   "Many watchers by spec.nodeName, each on a connection of its own, 500 updates a second",
	figures: watchersFigures("watchers by node, 500/s", 150e6),
}

func measureKubelets(ctx context.Context, t *trial) (Figures, error) {
	queries, err := t.byNode(t.Kubelets)
	if err != nil {
		return nil, err
	}
	return t.measureWatchers(ctx, queries, 500)
}

// byNode returns the queries of n kubelets. If no pod is on a node, it returns an error.
func (t *trial) byNode(n int) ([]string, error) {
	if len(t.pods.nodes) == 0 {
		return nil, errors.New("no pod is on a node")
	}
	queries := make([]string, n)
	for i := range queries {
		node := t.pods.nodes[i%len(t.pods.nodes)]
		queries[i] = watchWithState + "&fieldSelector=" + url.QueryEscape("spec.nodeName="+node)
	}
	return queries, nil
}

var everybody = Scenario{
	Name: "everybody", Runs: 1, Writes: true, measure: measureEverybody,
	Short:   "Many watchers of all pods, each on a connection of its own, 100 updates a second",
	figures: watchersFigures("watchers of all pods, 100/s", 50e6),
}

func measureEverybody(ctx context.Context, t *trial) (Figures, error) {
	queries, err := t.ofAll(ctx, t.Watchers)
	if err != nil {
		return nil, err
	}
	return t.measureWatchers(ctx, queries, 100)
}

// ofAll returns the queries of n informers that have listed all pods.
func (t *trial) ofAll(ctx context.Context, n int) ([]string, error) {
	now, err := t.resourceVersion(ctx)
	if err != nil {
		return nil, err
	}
	queries := make([]string, n)
	for i := range queries {
		queries[i] = watchFrom(now)
	}
	return queries, nil
}

// resourceVersion returns the one of the server's state, as an informer knows it after its LIST.
func (t *trial) resourceVersion(ctx context.Context) (string, error) {
	answer, err := t.control.do(ctx, request{path: podsPath, query: "resourceVersion=0&fieldSelector=metadata.name%3Dnone"})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	l := wire.NewListReader(answer.Body, wire.Protobuf, wire.Limits{})
	for err == nil {
		_, err = l.Next()
	}
	if rv := l.Meta().ResourceVersion; rv != "" {
		return rv, nil
	}
	return "", err
}

// Kubelets measures n watchers by spec.nodeName, of a fresh proxy or of kube-apiserver. The figures
// are those of the scenario of that name. If pods may not be changed, the error is ErrNoWrites.
func (b *Bench) Kubelets(ctx context.Context, ofProxy bool, n int) (f Figures, err error) {
	if err := b.Allows(kubelets); err != nil {
		return nil, err
	}
	one := *b
	one.o.Kubelets = n
	if ofProxy {
		return one.ofWeir(ctx, kubelets)
	}
	return one.trial(ctx, kubelets, one.direct)
}
