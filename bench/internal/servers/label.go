package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/stride"
	"github.com/weirproject/weir/internal/wire"
)

var label = Scenario{
	Name: "label", Runs: 3, measure: measureLabel,
	Short: "LIST of \"0\" by a label that few pods have, one after the other",
	figures: []boundedFigure{
		{figures.New("cpuSeconds", "LIST by label: CPU", figures.Seconds), ratio(0.01)},
		{figures.New("seconds", "  time", figures.Seconds), anything},
		{figures.New("objects", "  pods in the answer", figures.Number), anything},
	},
}

// warmLists are those that are not measured: what keeps coming is what counts.
const warmLists = 20

func measureLabel(ctx context.Context, t *trial) (Figures, error) {
	if len(t.pods.apps) == 0 {
		return nil, errors.New("no pod has a label that one would select by")
	}
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	defer c.close()
	step, objects, lists := stride.Of(len(t.pods.apps)), 0, 0
	one := func() error {
		selector := t.pods.apps[lists*step%len(t.pods.apps)]
		n, err := countList(ctx, c, "resourceVersion=0&labelSelector="+url.QueryEscape(selector))
		lists++
		objects += n
		return err
	}
	for range warmLists {
		if err := one(); err != nil {
			return nil, err
		}
	}
	objects, lists = 0, 0
	begin := time.Now()
	cpu, err := t.spent(ctx, func() error {
		for lists == 0 || time.Since(begin) < t.Cheap {
			if err := one(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n := float64(lists)
	return Figures{"cpuSeconds": cpu / n, "seconds": time.Since(begin).Seconds() / n, "objects": float64(objects) / n}, nil
}

// countList makes a LIST and counts what is in it.
func countList(ctx context.Context, c *client, query string) (int, error) {
	answer, err := c.do(ctx, request{path: podsPath, query: query})
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	l := wire.NewListReader(answer.Body, wire.Protobuf, wire.Limits{})
	for n := 0; ; n++ {
		switch _, err := l.Next(); {
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, fmt.Errorf("LIST: %w", err)
		}
	}
}
