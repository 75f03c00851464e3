package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/internal/quantity"
)

// updateRates are how many pods change in a second while a slow reader gets the initial state.
var updateRates = []int{50, 500, 2000}

var slowReader = Scenario{
	Name: "slowreader", Runs: 1, Writes: true, measure: measureSlowReader, figures: slowReaderFigures(),
	Short: "WATCH with initial events of a slow reader while pods change: whether it gets through and then misses nothing",
}

func slowReaderFigures() (all []boundedFigure) {
	for _, rate := range updateRates {
		at := fmt.Sprint(rate)
		all = append(all,
			boundedFigure{figures.New("unfinished"+at, fmt.Sprintf("slow reader, %s/s: failed", quantity.Count(int64(rate))), figures.Count), atMost(0)},
			boundedFigure{figures.New("gaps"+at, "  pods missed or gone back in time", figures.Count), atMost(0)},
			boundedFigure{figures.New("initialSeconds"+at, "  initial state through after", figures.Seconds), anything},
			boundedFigure{figures.New("closedAfterSeconds"+at, "  closed by the server after", figures.Seconds), anything},
			boundedFigure{figures.New("updatesPerSecond"+at, "  updates a second", figures.Number), anything})
	}
	return all
}

func measureSlowReader(ctx context.Context, t *trial) (Figures, error) {
	f := Figures{}
	for _, rate := range updateRates {
		got, err := t.readWhileWriting(ctx, float64(rate))
		if err != nil {
			return nil, fmt.Errorf("at %d updates/s: %w", rate, err)
		}
		for key, value := range got {
			f[fmt.Sprintf("%s%d", key, rate)] = value
		}
		t.say(fmt.Sprintf("slow reader at %d updates/s: %s", rate, outcome(got)))
	}
	return f, nil
}

func outcome(f Figures) string {
	text := "initial state through after " + quantity.Seconds(f["initialSeconds"])
	if f["unfinished"] > 0 {
		text = "initial state not through"
	}
	if after, ok := f["closedAfterSeconds"]; ok {
		text += ", closed after " + quantity.Seconds(after)
	}
	return text + fmt.Sprintf(", %.0f gaps, %.0f updates/s", f["gaps"], f["updatesPerSecond"])
}

// readWhileWriting watches at a limited rate while pods change. A watch that ends early, or takes
// longer than its time, is a figure and no error.
func (t *trial) readWhileWriting(ctx context.Context, rate float64) (Figures, error) {
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	defer c.close()
	writing := startUpdates(ctx, t.writer, len(t.pods.keys), rate)
	defer writing.stop()

	ctx, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	begin := time.Now()
	watch, body, err := c.watch(ctx, watchWithState)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	reader, p, out := newFollower(watch), &rateLimiter{perSecond: t.ReadRate}, Figures{"gaps": 0}
	err = reader.follow(ctx, p, func() bool { return reader.initial })
	if err == nil {
		out["initialSeconds"] = time.Since(begin).Seconds()
		until := time.Now().Add(t.Follow)
		err = reader.follow(ctx, p, func() bool { return time.Now().After(until) })
	} else {
		out["unfinished"] = 1
	}
	written, writeErr := writing.stop()
	if writeErr != nil {
		return nil, writeErr
	}
	out["updatesPerSecond"] = t.reached(writing.rate(), rate)
	if err == nil {
		var gaps int
		gaps, err = reader.catchUp(ctx, t.pods.keys, written)
		out["gaps"] = float64(gaps)
	}
	out["gaps"] += float64(reader.back)
	switch {
	case err == nil:
		out["unfinished"] = 0
	case errors.Is(err, errClosed):
		out["unfinished"], out["closedAfterSeconds"] = 1, time.Since(begin).Seconds()
	case errors.Is(err, context.DeadlineExceeded):
		out["unfinished"] = 1
	default:
		return nil, err
	}
	return out, nil
}
