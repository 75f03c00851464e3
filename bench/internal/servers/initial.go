package servers

import (
	"context"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
)

var initial = Scenario{
	Name: "initial", Runs: 3, measure: measureInitial,
	Short: "WATCH with all pods as initial events",
	figures: []boundedFigure{
		{figures.New("cpuSeconds", "full WATCH with initial events: CPU", figures.Seconds), ratio(0.25)},
		{figures.New("seconds", "  time", figures.Seconds), anything},
		{figures.New("events", "  events", figures.Count), anything},
	},
}

func measureInitial(ctx context.Context, t *trial) (Figures, error) {
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	defer c.close()
	begin := time.Now()
	var events int64
	cpu, err := t.spent(ctx, func() error {
		for range fullLists {
			n, err := readInitial(ctx, c, watchWithState)
			if err != nil {
				return err
			}
			events = n
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Figures{"cpuSeconds": cpu / fullLists, "seconds": time.Since(begin).Seconds() / fullLists, "events": float64(events)}, nil
}

// readInitial reads the initial events of the WATCH of a query and closes it.
func readInitial(ctx context.Context, c *client, query string) (events int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, body, err := c.watch(ctx, query)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	f := newFollower(watch)
	err = f.follow(ctx, &rateLimiter{}, func() bool { return f.initial })
	return f.events, err
}
