package servers

import (
	"context"

	"github.com/weirproject/weir/bench/internal/figures"
)

var hold = Scenario{
	Name: "hold", Runs: 3, measure: measureHold,
	Short: "What it takes to hold the pods",
	figures: []boundedFigure{
		{figures.New("heapBytes", "heap to hold the pods", figures.Bytes), ratio(0.10)},
		{figures.New("rssBytes", "RSS", figures.Bytes), anything},
		{figures.New("objects", "pods", figures.Count), anything},
	},
}

func measureHold(ctx context.Context, t *trial) (Figures, error) {
	heap, err := t.heap(ctx)
	if err != nil {
		return nil, err
	}
	rss, _, err := t.gauge.memory(ctx)
	if err != nil {
		return nil, err
	}
	return Figures{"heapBytes": heap, "rssBytes": rss, "objects": float64(len(t.pods.keys))}, nil
}
