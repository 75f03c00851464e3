package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// watchers are many watches, each over a separate connection, as kubelets and controllers open
// them.
type watchers struct {
	trial   *trial
	cancel  context.CancelFunc
	running sync.WaitGroup

	events atomic.Int64
	closed atomic.Int64 // watches that the server has closed
}

// opening limits how many connections are opened at the same time.
const opening = 16

// openWatchers opens a watch for each query. It returns when each watch has received its initial
// state, if its query asks for one.
func (t *trial) openWatchers(ctx context.Context, queries []string) *watchers {
	ctx, cancel := context.WithCancel(ctx)
	w := &watchers{trial: t, cancel: cancel}
	var starting errgroup.Group
	starting.SetLimit(opening)
	for _, query := range queries {
		starting.Go(func() error {
			err := figures.Attempt(func() { w.open(ctx, query) })
			if err != nil {
				cancel() // ends the other watches
			}
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		w.stop()
		figures.Check(err, "opening ", len(queries), " watches")
	}
	return w
}

// open opens a watch and returns when it has received its initial state, if the query asks for one.
// A goroutine then reads the watch until it ends.
func (w *watchers) open(ctx context.Context, query string) {
	c := w.trial.client()
	watch, body, err := c.watch(ctx, query)
	if err == nil && strings.HasPrefix(query, watchWithState) {
		f := newFollower(watch)
		err = f.follow(ctx, newLimiter(0), func() bool { return f.initial })
	}
	end := func() {
		if body != nil {
			body.Close()
		}
		c.close()
	}
	if err != nil {
		end()
		figures.Check(err)
	}
	w.running.Go(func() {
		defer end()
		_ = drain(watch, func(e wire.EventType) {
			if e != wire.Bookmark {
				w.events.Add(1)
			}
		})
		if ctx.Err() == nil {
			w.closed.Add(1)
		}
	})
}

// stop ends the watches and waits until they have ended.
func (w *watchers) stop() {
	w.cancel()
	w.running.Wait()
}

// measureWatchers measures the cost of many watchers while pods change.
func (t *trial) measureWatchers(ctx context.Context, queries []string, rate float64) Figures {
	figures.Check(enoughFiles(len(queries)))
	alone := t.writesAlone(ctx, rate)
	g := t.grow(ctx, 0, nil)
	defer g.end()
	var w *watchers
	f := Figures{"watchers": float64(len(queries))}
	f["openCPUSeconds"] = t.spent(ctx, func() { w = t.openWatchers(ctx, queries) })
	defer w.stop()
	cores := t.cores(ctx, func() { f["updatesPerSecond"] = t.writeFor(ctx, t.writer, rate) })
	f["cpuCores"] = max(cores-alone, 0)
	f["closed"], f["events"] = float64(w.closed.Load()), float64(w.events.Load())
	f["rssGrowthBytes"], f["peakRSSBytes"] = g.stop(ctx)
	return f
}

// writeFor changes pods for the options' Duration, and returns the number of changes per second.
func (t *trial) writeFor(ctx context.Context, w writer, rate float64) float64 {
	writing := startUpdates(ctx, w, len(t.pods.keys), rate)
	err := pause(ctx, t.Duration)
	figures.Must(writing.stop())
	figures.Check(err)
	return t.reached(writing.rate(), rate)
}

// enough is the least share of a wanted rate that counts as that rate.
const enough = 0.95

// reached returns the rate that was reached (got). If this rate is well below the wanted rate (see
// enough), reached tells the user, because the figures are then not for the wanted rate.
func (t *trial) reached(got, wanted float64) float64 {
	if got < enough*wanted {
		t.say(fmt.Sprintf("only %.0f of %.0f updates per second could be written", got, wanted))
	}
	return got
}

// writesAlone returns the CPU usage, in cores, of a kube-apiserver that has no watchers while pods
// are updated through it. That usage is not part of serving watchers. writesAlone returns 0 for the
// proxy, and for updates directly in etcd, which cost the proxy and kube-apiserver the same.
func (t *trial) writesAlone(ctx context.Context, rate float64) float64 {
	if t.weir() || !t.writesThrough {
		return 0
	}
	return t.cores(ctx, func() { t.writeFor(ctx, t.writer, rate) })
}

// watchersFigures returns the figures of a scenario with many watchers. grows is the limit of the
// growth of weir's resident set, in bytes.
func watchersFigures(label string, grows float64) []figures.Figure {
	return []figures.Figure{
		figures.New("closed", label+": closed", figures.Count).AtMost(0),
		figures.New("cpuCores", "  CPU, cores", figures.Number).RatioAtMost(0.5),
		figures.New("rssGrowthBytes", "  RSS grows by", figures.Bytes).AtMost(grows),
		figures.New("peakRSSBytes", "  peak RSS", figures.Bytes),
		figures.New("openCPUSeconds", "  CPU to open them all", figures.Seconds),
		figures.New("watchers", "  watchers", figures.Count),
		figures.New("events", "  events received", figures.Count),
		figures.New("updatesPerSecond", "  updates a second", figures.Number),
	}
}

var kubelets = Scenario{
	Name: "kubelets", Runs: 1, Writes: true, measure: measureKubelets,
	Short:   "Many watchers by spec.nodeName, each on a separate connection, with 500 updates per second",
	figures: watchersFigures("watchers by node, 500/s", 150e6),
}

func measureKubelets(ctx context.Context, t *trial) Figures {
	return t.measureWatchers(ctx, t.byNode(t.Kubelets), 500)
}

var errNoNodes = errors.New("no pod is on a node")

// byNode returns the queries of n kubelets. It fails if no pod is scheduled to a node.
func (t *trial) byNode(n int) []string {
	figures.Require(len(t.pods.nodes) > 0, errNoNodes)
	queries := make([]string, n)
	for i := range queries {
		node := t.pods.nodes[i%len(t.pods.nodes)]
		queries[i] = watchWithState + "&fieldSelector=" + url.QueryEscape("spec.nodeName="+node)
	}
	return queries
}

var everybody = Scenario{
	Name: "everybody", Runs: 1, Writes: true, measure: measureEverybody,
	Short:   "Many watchers of all pods, each on a separate connection, with 100 updates per second",
	figures: watchersFigures("watchers of all pods, 100/s", 50e6),
}

func measureEverybody(ctx context.Context, t *trial) Figures {
	return t.measureWatchers(ctx, t.ofAll(ctx, t.Watchers), 100)
}

// ofAll returns the queries of n informers that have just listed all pods.
func (t *trial) ofAll(ctx context.Context, n int) []string {
	return slices.Repeat([]string{watchFrom(t.resourceVersion(ctx))}, n)
}

// resourceVersion returns the server's current resourceVersion, which an informer has after its
// LIST.
func (t *trial) resourceVersion(ctx context.Context) string {
	answer := figures.Must(t.control.do(ctx, request{path: podsPath, query: "resourceVersion=0&fieldSelector=metadata.name%3Dnone"}))
	list, _, err := readList(answer.Body)
	figures.Check(err)
	return list.Meta().ResourceVersion
}

// Kubelets measures n watchers by spec.nodeName, on a new proxy or on kube-apiserver. It returns
// the figures of the scenario kubelets. If the options do not allow changes of pods, the error is
// ErrNoWrites.
func (b *Bench) Kubelets(ctx context.Context, ofProxy bool, n int) (f Figures, err error) {
	if err := b.Allows(kubelets); err != nil {
		return nil, err
	}
	one, side := *b, nameAPIServer
	one.o.Kubelets = n
	if ofProxy {
		side = nameWeir
	}
	return one.measure(ctx, kubelets, side)
}

var crowd = Scenario{
	Name: "crowd", Runs: 1, Writes: true, Heavy: true, measure: measureCrowd,
	Short: "The kubelets of a large cluster and the watchers of everybody, with 500 updates per second; only if --only names it",
	figures: []figures.Figure{
		figures.New("closed", "crowd of watchers, 500/s: closed", figures.Count).AtMost(0),
		figures.New("peakRSSBytes", "  peak RSS", figures.Bytes).RatioAtMost(0.1),
		figures.New("cpuCores", "  CPU, cores", figures.Number),
		figures.New("rssGrowthBytes", "  RSS grows by", figures.Bytes),
		figures.New("openCPUSeconds", "  CPU to open them all", figures.Seconds),
		figures.New("watchers", "  watchers", figures.Count),
		figures.New("events", "  events received", figures.Count),
		figures.New("updatesPerSecond", "  updates a second", figures.Number),
	},
}

func measureCrowd(ctx context.Context, t *trial) Figures {
	return t.measureWatchers(ctx, append(t.byNode(t.Crowd), t.ofAll(ctx, t.Watchers)...), 500)
}
