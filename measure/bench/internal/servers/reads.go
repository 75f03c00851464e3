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
	Short: "Memory of the cached pods",
	figures: []figures.Figure{
		figures.New("heapBytes", "heap of the cached pods", figures.Bytes).RatioAtMost(0.10),
		figures.New("rssBytes", "RSS", figures.Bytes),
		figures.New("objects", "pods", figures.Count),
	},
}

func measureHold(ctx context.Context, t *trial) Figures {
	heap := t.heap(ctx)
	rss, _, err := t.gauge.memory(ctx)
	figures.Check(err)
	return Figures{"heapBytes": heap, "rssBytes": rss, "objects": float64(len(t.pods.keys))}
}

var label = Scenario{
	Name: "label", Runs: 3, measure: measureLabel,
	Short: "Sequential LISTs of \"0\" by a label that few pods have",
	figures: []figures.Figure{
		figures.New("cpuSeconds", "LIST by label: CPU", figures.Seconds).RatioAtMost(0.01),
		figures.New("seconds", "  time", figures.Seconds),
		figures.New("objects", "  pods in the response", figures.Number),
	},
}

// warmLists is the number of LISTs that are sent before the measurement, so that caches are filled.
const warmLists = 20

var errNoApps = errors.New("no pod has a label that one would select by")

func measureLabel(ctx context.Context, t *trial) Figures {
	figures.Require(len(t.pods.apps) > 0, errNoApps)
	c := t.client()
	defer c.close()
	step, objects, lists := figures.Stride(len(t.pods.apps)), 0, 0
	one := func() {
		selector := t.pods.apps[lists*step%len(t.pods.apps)]
		objects += figures.Must(countList(ctx, c, "resourceVersion=0&labelSelector="+url.QueryEscape(selector)))
		lists++
	}
	for range warmLists {
		one()
	}
	objects, lists = 0, 0
	begin := time.Now()
	cpu := t.spent(ctx, func() {
		for lists == 0 || time.Since(begin) < t.Cheap {
			one()
		}
	})
	n := float64(lists)
	return Figures{"cpuSeconds": cpu / n, "seconds": time.Since(begin).Seconds() / n, "objects": float64(objects) / n}
}

// countList sends a LIST and returns the number of its objects.
func countList(ctx context.Context, c *client, query string) (int, error) {
	answer, err := c.do(ctx, request{path: podsPath, query: query})
	if err != nil {
		return 0, err
	}
	_, n, err := readList(answer.Body)
	return n, err
}

// readList reads the body of a LIST, closes the body, and returns the number of objects.
func readList(body io.ReadCloser) (list *wire.ListReader, n int, err error) {
	defer body.Close()
	list = wire.NewListReader(body, wire.Protobuf, wire.Limits{})
	for ; ; n++ {
		switch _, err := list.Next(); {
		case err == io.EOF:
			return list, n, nil
		case err != nil:
			return list, n, fmt.Errorf("LIST: %w", err)
		}
	}
}

var list = Scenario{
	Name: "list", Runs: 3, measure: measureList,
	Short: "Full LIST of \"0\" in protobuf, uncompressed and gzipped",
	figures: []figures.Figure{
		figures.New("cpuSeconds", "full protobuf LIST: CPU", figures.Seconds).RatioAtMost(0.35),
		figures.New("seconds", "  time", figures.Seconds),
		figures.New("wireBytes", "  size", figures.Bytes),
		figures.New("gzipCPUSeconds", "full protobuf LIST, gzipped: CPU", figures.Seconds).RatioAtMost(0.6),
		figures.New("gzipSeconds", "  time", figures.Seconds),
		figures.New("gzipWireBytes", "  size", figures.Bytes),
	},
}

// fullLists is the number of full LISTs per run, whose mean cost is reported.
const fullLists = 3

func measureList(ctx context.Context, t *trial) Figures {
	c := t.client()
	defer c.close()
	f := Figures{}
	for _, answer := range []struct {
		gzip               bool
		cpu, seconds, size string
	}{
		{false, "cpuSeconds", "seconds", "wireBytes"},
		{true, "gzipCPUSeconds", "gzipSeconds", "gzipWireBytes"},
	} {
		q := request{path: podsPath, query: "resourceVersion=0", gzip: answer.gzip}
		f[answer.cpu], f[answer.seconds], f[answer.size] = t.eachOf(ctx, fullLists, func() (int64, error) { return c.discard(ctx, q) })
	}
	return f
}

// eachOf calls read n times. It returns the server's CPU time and the elapsed time per call, both
// as means in seconds, and the result of the last call.
func (t *trial) eachOf(ctx context.Context, n float64, read func() (int64, error)) (cpu, seconds, last float64) {
	begin := time.Now()
	cpu = t.spent(ctx, func() {
		for range int(n) {
			last = float64(figures.Must(read()))
		}
	})
	return cpu / n, time.Since(begin).Seconds() / n, last
}

var initial = Scenario{
	Name: "initial", Runs: 3, measure: measureInitial,
	Short: "WATCH with all pods as initial events",
	figures: []figures.Figure{
		figures.New("cpuSeconds", "full WATCH with initial events: CPU", figures.Seconds).RatioAtMost(0.25),
		figures.New("seconds", "  time", figures.Seconds),
		figures.New("events", "  events", figures.Count),
	},
}

func measureInitial(ctx context.Context, t *trial) Figures {
	c := t.client()
	defer c.close()
	cpu, seconds, events := t.eachOf(ctx, fullLists, func() (int64, error) { return readInitial(ctx, c, watchWithState) })
	return Figures{"cpuSeconds": cpu, "seconds": seconds, "events": events}
}

// readInitial opens a WATCH with a query, reads its initial events and closes the WATCH.
func readInitial(ctx context.Context, c *client, query string) (events int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, body, err := c.watch(ctx, query)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	f := newFollower(watch)
	err = f.follow(ctx, newLimiter(0), func() bool { return f.initial })
	return f.events, err
}
