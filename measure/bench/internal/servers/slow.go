package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

var slowLists = Scenario{
	Name: "slowlists", Runs: 1, measure: measureSlowLists,
	Short: "Concurrent full LISTs of many slow readers, two thirds in protobuf and one third in JSON",
	figures: []figures.Figure{
		figures.New("rssGrowthBytes", "slow full LISTs: RSS grows by", figures.Bytes).AtMost(64e6),
		figures.New("peakRSSBytes", "  peak RSS", figures.Bytes),
		figures.New("readers", "  readers", figures.Count),
		figures.New("broken", "  truncated responses", figures.Count).AtMost(0),
		figures.New("seconds", "  time", figures.Seconds),
	},
}

// errTooLarge is the cause with which a run ends when its server uses too much memory.
var errTooLarge = errors.New("the server has grown too large")

func measureSlowLists(ctx context.Context, t *trial) Figures {
	protobuf, json := t.SlowProtobuf, t.SlowJSON
	if !t.weir() {
		if t.SlowAPIServer == 0 {
			return nil
		}
		json = t.SlowAPIServer / 3
		protobuf = t.SlowAPIServer - json
	}
	return t.slowLists(ctx, protobuf, json, func() {})
}

// slowLists calls begin, starts readers of protobuf and of JSON at the same time, and returns when
// all have ended. If RSSLimit is set, it disconnects all readers when the server's memory reaches
// the limit.
func (t *trial) slowLists(ctx context.Context, protobuf, json int, begin func()) Figures {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin()
	g := t.grow(ctx, t.RSSLimit, func() { cancel(errTooLarge) })
	defer g.end()
	begun := time.Now()
	broken := t.readAllSlowly(reading, protobuf, json)
	took := time.Since(begun).Seconds()
	figures.Check(context.Cause(ctx))
	grown, peak := g.stop(ctx)
	if reading.Err() != nil {
		t.say("all LISTs were cut off when the server's RSS passed the limit")
	}
	return Figures{
		"rssGrowthBytes": grown, "peakRSSBytes": peak, "readers": float64(protobuf + json), "broken": float64(broken), "seconds": took,
	}
}

// readAllSlowly starts readers of protobuf and of JSON at the same time, and returns when all have
// ended. broken is the number of readers that could not read their whole LIST.
func (t *trial) readAllSlowly(ctx context.Context, protobuf, json int) (broken int64) {
	var reading sync.WaitGroup
	var failed atomic.Int64
	for i := range protobuf + json {
		accept := wire.ContentTypeProtobuf
		if i >= protobuf {
			accept = wire.ContentTypeJSON
		}
		reading.Go(func() {
			t.requests.Add(1)
			if err := figures.Attempt(func() { t.readSlowly(ctx, accept) }); err != nil {
				failed.Add(1)
				if ctx.Err() == nil {
					t.say(fmt.Sprintf("a slow LIST was cut off: %v", err))
				}
				return
			}
			t.told.Add(1)
		})
	}
	reading.Wait()
	return failed.Load()
}

// readSlowly sends one full LIST over a separate connection and reads the answer at a limited rate.
func (t *trial) readSlowly(ctx context.Context, accept string) {
	c := t.client()
	defer c.close()
	answer := figures.Must(c.do(ctx, request{path: podsPath, query: "resourceVersion=0", accept: accept}))
	defer answer.Body.Close()
	figures.Must(io.Copy(io.Discard, newThrottled(ctx, answer.Body, t.SlowBytes)))
}

// updateRates are the numbers of pods that change per second while a slow reader reads the initial
// state.
var updateRates = []int{50, 500, 2000}

var slowReader = Scenario{
	Name: "slowreader", Runs: 1, Writes: true, measure: measureSlowReader, figures: slowReaderFigures(),
	Short: "WATCH with initial events of a slow reader while pods change: whether it receives all initial events and all later changes",
}

func slowReaderFigures() (all []figures.Figure) {
	for _, rate := range updateRates {
		at := fmt.Sprint(rate)
		all = append(all,
			figures.New("unfinished"+at, fmt.Sprintf("slow reader, %s/s: failed", humanize.Count(int64(rate))), figures.Count).AtMost(0),
			figures.New("gaps"+at, "  pods missed or older than before", figures.Count).AtMost(0),
			figures.New("initialSeconds"+at, "  initial state complete after", figures.Seconds),
			figures.New("closedAfterSeconds"+at, "  closed by the server after", figures.Seconds),
			figures.New("updatesPerSecond"+at, "  updates a second", figures.Number))
	}
	return all
}

func measureSlowReader(ctx context.Context, t *trial) Figures {
	f := Figures{}
	for _, rate := range updateRates {
		var got Figures
		err := figures.Attempt(func() { got = t.readWhileWriting(ctx, float64(rate)) })
		figures.Check(err, "at ", rate, " updates/s")
		for key, value := range got {
			f[fmt.Sprintf("%s%d", key, rate)] = value
		}
		t.say(fmt.Sprintf("slow reader at %d updates/s: %s", rate, outcome(got)))
	}
	return f
}

func outcome(f Figures) string {
	text := "initial state complete after " + humanize.Seconds(f["initialSeconds"])
	if f["unfinished"] > 0 {
		text = "initial state incomplete"
	}
	if after, ok := f["closedAfterSeconds"]; ok {
		text += ", closed after " + humanize.Seconds(after)
	}
	return text + fmt.Sprintf(", %.0f gaps, %.0f updates/s", f["gaps"], f["updatesPerSecond"])
}

// readWhileWriting watches at a limited rate while pods change. A watch that ends early, or takes
// longer than Patience, gives a figure and no error.
func (t *trial) readWhileWriting(ctx context.Context, rate float64) Figures {
	c := t.client()
	defer c.close()
	writing := startUpdates(ctx, t.writer, len(t.pods.keys), rate)
	defer writing.stop()

	ctx, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	begin := time.Now()
	watch, body, err := c.watch(ctx, watchWithState)
	figures.Check(err)
	defer body.Close()
	reader, p, out := newFollower(watch), newLimiter(t.ReadRate), Figures{"unfinished": 1, "gaps": 0}
	err = reader.follow(ctx, p, func() bool { return reader.initial })
	if err == nil {
		out["initialSeconds"] = time.Since(begin).Seconds()
		until := time.Now().Add(t.Follow)
		err = reader.follow(ctx, p, func() bool { return time.Now().After(until) })
	}
	written := figures.Must(writing.stop())
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
		out["closedAfterSeconds"] = time.Since(begin).Seconds()
	case !errors.Is(err, context.DeadlineExceeded):
		figures.Check(err)
	}
	return out
}
