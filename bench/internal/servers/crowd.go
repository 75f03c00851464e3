package servers

import (
	"context"

	"github.com/weirproject/weir/bench/internal/figures"
)

var crowd = Scenario{
	Name: "crowd", Runs: 1, Writes: true, Heavy: true, measure: measureCrowd,
	Short: "The kubelets of a large cluster and everybody beside them, 500 updates a second; only when it is named",
	figures: append([]boundedFigure{
		{figures.New("closed", "crowd of watchers, 500/s: closed", figures.Count), atMost(0)},
		{figures.New("peakRSSBytes", "  peak RSS", figures.Bytes), ratio(0.1)},
	}, besides(watchersFigures("", 0), "closed", "peakRSSBytes")...),
}

// besides returns the figures without those of some keys, and without bounds.
func besides(all []boundedFigure, keys ...string) (rest []boundedFigure) {
	for _, f := range all {
		known := false
		for _, key := range keys {
			known = known || f.Key == key
		}
		if f.want = anything; !known {
			rest = append(rest, f)
		}
	}
	return rest
}

func measureCrowd(ctx context.Context, t *trial) (Figures, error) {
	queries, err := t.byNode(t.Crowd)
	if err != nil {
		return nil, err
	}
	all, err := t.ofAll(ctx, t.Watchers)
	if err != nil {
		return nil, err
	}
	return t.measureWatchers(ctx, append(queries, all...), 500)
}
