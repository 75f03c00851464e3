package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
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
	step, objects, lists := figures.Stride(len(t.pods.apps)), 0, 0
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

var list = Scenario{
	Name: "list", Runs: 3, measure: measureList,
	Short: "Full LIST of \"0\" in protobuf, as it is and gzipped",
	figures: []boundedFigure{
		{figures.New("cpuSeconds", "full protobuf LIST: CPU", figures.Seconds), ratio(0.35)},
		{figures.New("seconds", "  time", figures.Seconds), anything},
		{figures.New("wireBytes", "  size", figures.Bytes), anything},
		{figures.New("gzipCPUSeconds", "full protobuf LIST, gzipped: CPU", figures.Seconds), ratio(0.6)},
		{figures.New("gzipSeconds", "  time", figures.Seconds), anything},
		{figures.New("gzipWireBytes", "  size", figures.Bytes), anything},
	},
}

// fullLists is how many full answers one run takes the mean of.
const fullLists = 3

func measureList(ctx context.Context, t *trial) (Figures, error) {
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	defer c.close()
	f := Figures{}
	for _, answer := range []struct {
		gzip               bool
		cpu, seconds, size string
	}{
		{false, "cpuSeconds", "seconds", "wireBytes"},
		{true, "gzipCPUSeconds", "gzipSeconds", "gzipWireBytes"},
	} {
		begin := time.Now()
		var size int64
		cpu, err := t.spent(ctx, func() error {
			for range fullLists {
				if size, err = c.discard(ctx, request{path: podsPath, query: "resourceVersion=0", gzip: answer.gzip}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		f[answer.cpu], f[answer.seconds], f[answer.size] = cpu/fullLists, time.Since(begin).Seconds()/fullLists, float64(size)
	}
	return f, nil
}

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
