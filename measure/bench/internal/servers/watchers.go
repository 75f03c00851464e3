package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// watchers are many watches, each on a connection of its own, as those of kubelets and controllers
// are.
type watchers struct {
	trial   *trial
	cancel  context.CancelFunc
	running sync.WaitGroup

	events atomic.Int64
	closed atomic.Int64 // by the server
}

// opening bounds how many connections are opened at once.
const opening = 16

// openWatchers opens a watch for each query and returns when each has had its initial state, if it
// asked for one.
func (t *trial) openWatchers(ctx context.Context, queries []string) (*watchers, error) {
	running, cancel := context.WithCancel(ctx)
	w := &watchers{trial: t, cancel: cancel}
	slots := make(chan struct{}, opening)
	var mu sync.Mutex
	var failed error
	for _, query := range queries {
		slots <- struct{}{}
		w.running.Go(func() {
			opened := sync.OnceFunc(func() { <-slots })
			defer opened()
			if err := w.run(running, query, opened); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed == nil && running.Err() == nil {
					failed = err
					cancel()
				}
			}
		})
	}
	for range opening { // until the last is open
		slots <- struct{}{}
	}
	mu.Lock()
	err := failed
	mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// run opens a watch and reads it until it ends. It calls opened once the watch has had its initial
// state, if it asked for one. An error means that the watch could not be opened.
func (w *watchers) run(ctx context.Context, query string, opened func()) error {
	c, err := w.trial.client()
	if err != nil {
		return err
	}
	defer c.close()
	watch, body, err := c.watch(ctx, query)
	if err != nil {
		return err
	}
	defer body.Close()
	f := newFollower(watch)
	if strings.HasPrefix(query, watchWithState) {
		if err := f.follow(ctx, &rateLimiter{}, func() bool { return f.initial }); err != nil {
			return err
		}
	}
	opened()
	_ = drain(watch, func(e wire.EventType) {
		if e != wire.Bookmark {
			w.events.Add(1)
		}
	})
	if ctx.Err() == nil {
		w.closed.Add(1)
	}
	return nil
}

// stop ends the watches and waits for them.
func (w *watchers) stop() {
	w.cancel()
	w.running.Wait()
}

// measureWatchers measures what many watchers cost while pods change.
func (t *trial) measureWatchers(ctx context.Context, queries []string, rate float64) (Figures, error) {
	if err := enoughFiles(len(queries)); err != nil {
		return nil, err
	}
	alone, err := t.writesAlone(ctx, rate)
	if err != nil {
		return nil, err
	}
	g, err := t.grow(ctx, 0, nil)
	if err != nil {
		return nil, err
	}
	defer g.stop(ctx)
	var w *watchers
	f := Figures{"watchers": float64(len(queries))}
	f["openCPUSeconds"], err = t.spent(ctx, func() (err error) {
		w, err = t.openWatchers(ctx, queries)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening %d watches: %w", len(queries), err)
	}
	defer w.stop()
	begin := time.Now()
	cpu, err := t.spent(ctx, func() (err error) {
		f["updatesPerSecond"], err = t.writeFor(ctx, rate)
		return err
	})
	if err != nil {
		return nil, err
	}
	f["cpuCores"] = max(cpu/time.Since(begin).Seconds()-alone, 0)
	f["closed"], f["events"] = float64(w.closed.Load()), float64(w.events.Load())
	if f["rssGrowthBytes"], f["peakRSSBytes"], err = g.stop(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// writeFor changes pods for the options' Duration, and returns how many changed in a second.
func (t *trial) writeFor(ctx context.Context, rate float64) (float64, error) {
	return t.writeWith(ctx, t.writer, rate)
}

// writeWith does what writeFor does, with another writer.
func (t *trial) writeWith(ctx context.Context, w writer, rate float64) (float64, error) {
	writing := startUpdates(ctx, w, len(t.pods.keys), rate)
	timer := time.NewTimer(t.Duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if _, err := writing.stop(); err != nil {
		return 0, err
	}
	return t.reached(writing.rate(), rate), ctx.Err()
}

// enough is the share of a wanted rate that counts as that rate.
const enough = 0.95

// reached returns got. If fewer pods change than are to change, it says so: figures of a rate that
// is not reached are of another one.
func (t *trial) reached(got, wanted float64) float64 {
	if got < enough*wanted {
		t.say(fmt.Sprintf("only %.0f of %.0f updates a second could be written", got, wanted))
	}
	return got
}

// writesAlone returns the CPU, in cores, that the updates alone cost kube-apiserver when they are
// made through it. That is no part of serving watchers. What goes straight into etcd costs both
// servers the same, and is not taken off: it is 0 here, as it is for the proxy.
func (t *trial) writesAlone(ctx context.Context, rate float64) (float64, error) {
	if t.weir() || !t.writesThrough {
		return 0, nil
	}
	begin := time.Now()
	cpu, err := t.spent(ctx, func() error {
		_, err := t.writeFor(ctx, rate)
		return err
	})
	return cpu / time.Since(begin).Seconds(), err
}

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

var crowd = Scenario{
	Name: "crowd", Runs: 1, Writes: true, Heavy: true, measure: measureCrowd,
	Short: "The kubelets of a large cluster and everybody beside them, 500 updates a second; only when it is named",
	figures: append([]boundedFigure{
		{figures.New("closed", "crowd of watchers, 500/s: closed", figures.Count), atMost(0)},
		{figures.New("peakRSSBytes", "  peak RSS", figures.Bytes), ratio(0.1)},
	}, without(watchersFigures("", 0), "closed", "peakRSSBytes")...),
}

// without returns the figures without those of some keys, and without bounds.
func without(all []boundedFigure, keys ...string) (rest []boundedFigure) {
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
