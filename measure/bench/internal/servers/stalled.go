package servers

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// stalledRate is the number of pods that change per second.
const stalledRate = 500

var stalled = Scenario{
	Name: "stalled", Runs: 3, Writes: true, measure: measureStalled,
	Short: "Delay of a watcher of all pods, alone and next to watchers that read nothing, with 500 updates per second",
	figures: []figures.Figure{
		figures.New("p99Seconds", "from commit to a watcher: p99", figures.Seconds).RatioAtMost(1),
		figures.New("p99SecondsStalled", "  next to stalled ones: p99", figures.Seconds).RatioAtMost(1),
		figures.New("slowdown", "  stalled ÷ alone", figures.Number).AtMost(1.25),
		figures.New("missed", "  changes not told", figures.Count).AtMost(0),
		figures.New("p50Seconds", "  alone: median", figures.Seconds),
		figures.New("p50SecondsStalled", "  next to stalled ones: median", figures.Seconds),
		figures.New("stalled", "  stalled watchers", figures.Count),
		figures.New("updatesPerSecond", "  updates a second", figures.Number),
	},
}

func measureStalled(ctx context.Context, t *trial) Figures {
	figures.Check(enoughFiles(t.Stalled))
	f := t.delays(ctx)
	defer t.stall(ctx, t.Stalled)()
	beside := t.delays(ctx)
	f["p99SecondsStalled"], f["p50SecondsStalled"] = beside["p99Seconds"], beside["p50Seconds"]
	f["missed"] += beside["missed"]
	f["updatesPerSecond"] = min(f["updatesPerSecond"], beside["updatesPerSecond"])
	f["slowdown"] = f["p99SecondsStalled"] / max(f["p99Seconds"], 1e-9)
	f["stalled"] = float64(t.Stalled)
	return f
}

// stalledWindow is how many bytes a stalled watcher's connection accepts: a few pods.
const stalledWindow = 64 << 10

// stall opens watches of all pods, each over a separate connection, and does not read them. They
// stay open until the caller calls end.
func (t *trial) stall(ctx context.Context, n int) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ends := []func(){cancel}
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	err := figures.Attempt(func() {
		for _, query := range t.ofAll(ctx, n) {
			c := t.client()
			ends = append(ends, c.close)
			c.transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: stalledWindow, MaxReceiveBufferPerConnection: stalledWindow}
			_, body, err := c.watch(ctx, query)
			figures.Check(err, "opening a watch that reads nothing")
			ends = append(ends, func() { _ = body.Close() })
		}
	})
	if err != nil {
		end()
		figures.Check(err)
	}
	return end
}

// commits is a writer that records when each write was committed.
type commits struct {
	writer

	mu sync.Mutex
	at map[uint64]time.Time // by resourceVersion; one for each write
}

func (c *commits) write(ctx context.Context, pod int, change int64) (uint64, error) {
	rv, err := c.writer.write(ctx, pod, change)
	now := time.Now()
	if err == nil {
		c.mu.Lock()
		c.at[rv] = now
		c.mu.Unlock()
	}
	return rv, err
}

// delays changes pods while one watcher reads the changes, and returns how late the watcher
// received them.
func (t *trial) delays(ctx context.Context) Figures {
	query := t.ofAll(ctx, 1)[0]
	c := t.client()
	defer c.close()
	reading, cancel := context.WithTimeout(ctx, t.Duration+t.Patience)
	defer cancel()
	watch, body, err := c.watch(reading, query)
	figures.Check(err)
	defer body.Close()
	told := tell(watch)
	end := func() {
		cancel()
		<-told.ended
	}
	defer end()
	written := &commits{writer: t.writer, at: map[uint64]time.Time{}}
	rate := t.writeFor(ctx, written, stalledRate)
	told.until(reading, written.at)
	end()
	late, missed := told.late(written.at)
	figures.Require(len(late) > 0, errors.Join(errors.New("the watcher received no change"), told.err))
	slices.Sort(late)
	return Figures{
		"p99Seconds": late[len(late)*99/100], "p50Seconds": late[len(late)/2], "missed": float64(missed), "updatesPerSecond": rate,
	}
}

// telling records when a watcher received each change. One goroutine reads the watch until it ends.
type telling struct {
	ended chan struct{}
	err   error         // of the watch; set when the watch has ended
	news  chan struct{} // receives a value after each change; of capacity one

	mu sync.Mutex
	at map[uint64]time.Time // by resourceVersion; one for each event
}

func tell(watch *wire.WatchReader) *telling {
	t := &telling{ended: make(chan struct{}), news: make(chan struct{}, 1), at: map[uint64]time.Time{}}
	go func() {
		defer close(t.ended)
		t.err = figures.Attempt(func() { t.read(watch) })
	}()
	return t
}

// read reads the watch until it ends or fails. It then ends the attempt that calls it (see
// figures.Attempt) with the reason.
func (t *telling) read(watch *wire.WatchReader) {
	var m wire.Meta
	for {
		e, err := watch.Next()
		now := time.Now()
		figures.Check(err)
		if e.Type == wire.Error {
			figures.Check(wire.DecodeStatus(wire.Protobuf, e.Object))
		} else if e.Type == wire.Bookmark {
			continue
		}
		figures.Check(wire.ReadMeta(wire.Protobuf, e.Object, &m))
		rv := figures.Must(resourceversion.Parse(m.ResourceVersion))
		t.mu.Lock()
		t.at[rv] = now
		t.mu.Unlock()
		select {
		case t.news <- struct{}{}:
		default:
		}
	}
}

// until waits until the watcher has received all written changes, or the watch or ctx has ended.
func (t *telling) until(ctx context.Context, written map[uint64]time.Time) {
	for {
		if _, missed := t.late(written); missed == 0 {
			return
		}
		select {
		case <-t.news:
		case <-t.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// late returns the delay of each change in seconds, and the number of changes that the watcher
// missed. The delay lasts from the end of the write until the watcher received the change. If the
// watcher received a change before its write returned, the delay is 0.
func (t *telling) late(written map[uint64]time.Time) (late []float64, missed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rv, at := range written {
		if told, ok := t.at[rv]; ok {
			late = append(late, max(told.Sub(at).Seconds(), 0))
		} else {
			missed++
		}
	}
	return late, missed
}
