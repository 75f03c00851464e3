package servers

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/attempt"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

const (
	// dayRate is how many pods change in a second. In an hour that is a day of 21 a second.
	dayRate = 500
	// dayKubelets and dayWatchers are the watchers by node and of all pods.
	dayKubelets, dayWatchers = 100, 10
	// dayTurns is how often in a day one more watcher by node comes and goes and pods are listed by
	// a label. An hour has one turn a second.
	dayTurns = 3600
	// A resident set is the mean of what is polled over 1/dayPolled of the day.
	dayPolled = 60
)

var day = Scenario{
	Name: "day", Runs: 1, Writes: true, Heavy: true, measure: measureDay,
	Short: "A day's worth of changes in an hour (or --duration), 500 updates a second, while clients come and go: whether memory grows; only when it is named",
	figures: []boundedFigure{
		{figures.New("rssGrowth", "day: RSS at its end ÷ after a sixth", figures.Number), atMost(1.1)},
		{figures.New("rssEarlyBytes", "  RSS after a sixth", figures.Bytes), anything},
		{figures.New("rssBytes", "  RSS at its end", figures.Bytes), anything},
		{figures.New("seconds", "  it took", figures.Seconds), anything},
		{figures.New("updates", "  updates", figures.Count), anything},
		{figures.New("closed", "  watchers closed", figures.Count), atMost(0)},
	},
}

// measureDay measures the proxy alone: nothing is wanted of kube-apiserver here, which would take
// as long.
func measureDay(ctx context.Context, t *trial) Figures {
	if !t.weir() {
		return nil
	}
	queries := append(t.byNode(dayKubelets), t.ofAll(ctx, dayWatchers)...)
	for i := range queries { // a watch that asks for no time ends after half an hour to an hour
		queries[i] += fmt.Sprintf("&timeoutSeconds=%d", int((2*t.Day + time.Hour).Seconds()))
	}
	w := t.openWatchers(ctx, queries)
	defer w.stop()
	begun := time.Now()
	writing := startUpdates(ctx, t.writer, len(t.pods.keys), dayRate)
	defer writing.stop()
	// A client that fails ends the polling, and the end of the polling ends the clients.
	turning, stop := context.WithCancelCause(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop(nil)
	clients.Go(func() {
		if err := attempt.Do(func() { t.comeAndGo(turning) }); turning.Err() == nil {
			stop(fmt.Errorf("a client that comes and goes: %w", err))
		}
	})
	f := Figures{}
	for _, at := range []struct {
		key string
		end time.Time
	}{{"rssEarlyBytes", begun.Add(t.Day / 6)}, {"rssBytes", begun.Add(t.Day)}} {
		f[at.key] = t.residentUntil(turning, at.end, t.Day/dayPolled)
		t.say(fmt.Sprintf("after %s: RSS %s", time.Since(begun).Round(time.Second), humanize.Bytes(int64(f[at.key]))))
	}
	attempt.Must(writing.stop())
	f["rssGrowth"] = f["rssBytes"] / max(f["rssEarlyBytes"], 1)
	f["seconds"], f["updates"] = time.Since(begun).Seconds(), t.reached(writing.rate(), dayRate)*writing.elapsed.Seconds()
	f["closed"] = float64(w.closed.Load())
	return f
}

// residentUntil returns the mean of the server's resident set over the last part of the time until
// end. It blocks until end.
func (t *trial) residentUntil(ctx context.Context, end time.Time, last time.Duration) float64 {
	attempt.Check(pause(ctx, time.Until(end.Add(-last))))
	sum, polls := 0.0, 0.0
	for polls == 0 || time.Now().Before(end) {
		attempt.Check(pause(ctx, t.gauge.every()))
		now, _, err := t.gauge.memory(ctx)
		attempt.Check(err)
		sum, polls = sum+now, polls+1
	}
	return sum / polls
}

// comeAndGo makes clients come, list or watch, and go, each on a connection of its own, until ctx
// ends.
func (t *trial) comeAndGo(ctx context.Context) {
	tick := time.NewTicker(t.Day / dayTurns)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		t.visit(ctx, turn)
	}
}

// visit plays one client. It watches a node's pods until it has their initial state, and then sends
// a LIST by a label.
func (t *trial) visit(ctx context.Context, turn int) {
	node := t.pods.nodes[turn*figures.Stride(len(t.pods.nodes))%len(t.pods.nodes)]
	t.openWatchers(ctx, []string{watchWithState + "&fieldSelector=" + url.QueryEscape("spec.nodeName="+node)}).stop()
	if len(t.pods.apps) == 0 {
		return
	}
	c := t.client()
	defer c.close()
	app := t.pods.apps[turn*figures.Stride(len(t.pods.apps))%len(t.pods.apps)]
	attempt.Must(countList(ctx, c, "resourceVersion=0&labelSelector="+url.QueryEscape(app)))
}
