package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/internal/wire"
)

var slowLists = Scenario{
	Name: "slowlists", Runs: 1, measure: measureSlowLists,
	Short: "Full LISTs of many slow readers at once, two thirds in protobuf and one third in JSON",
	figures: []boundedFigure{
		{figures.New("rssGrowthBytes", "slow full LISTs: RSS grows by", figures.Bytes), atMost(64e6)},
		{figures.New("peakRSSBytes", "  peak RSS", figures.Bytes), anything},
		{figures.New("readers", "  readers", figures.Count), anything},
		{figures.New("broken", "  answers that broke off", figures.Count), atMost(0)},
		{figures.New("seconds", "  time", figures.Seconds), anything},
	},
}

// errTooLarge is the cause of the end of a run whose server has grown too large.
var errTooLarge = errors.New("the server has grown too large")

func measureSlowLists(ctx context.Context, t *trial) (Figures, error) {
	protobuf, json := t.SlowProtobuf, t.SlowJSON
	if !t.weir() {
		if t.SlowAPIServer == 0 {
			return nil, nil
		}
		json = t.SlowAPIServer / 3
		protobuf = t.SlowAPIServer - json
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g, err := t.grow(ctx, t.RSSLimit, func() { cancel(errTooLarge) })
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	broken := t.readAllSlowly(ctx, protobuf, json)
	elapsed := time.Since(begin)
	grown, peak, err := g.stop(context.WithoutCancel(ctx))
	tooLarge := context.Cause(ctx) == errTooLarge
	if ctx.Err() != nil && !tooLarge {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if tooLarge {
		t.say("all LISTs were cut off when the server's RSS passed the limit")
	}
	return Figures{
		"rssGrowthBytes": grown, "peakRSSBytes": peak, "readers": float64(protobuf + json), "broken": float64(broken),
		"seconds": elapsed.Seconds(),
	}, nil
}

// readAllSlowly starts readers of protobuf and of JSON at once, and returns when all have ended.
// broken is how many of them did not get to the end of their LIST.
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
			if err := t.readSlowly(ctx, accept); err != nil {
				failed.Add(1)
				if ctx.Err() == nil {
					t.say(fmt.Sprintf("a slow LIST broke off: %v", err))
				}
				return
			}
			t.told.Add(1)
		})
	}
	reading.Wait()
	return failed.Load()
}

// readSlowly makes one full LIST on a connection of its own and reads it at a limited rate.
func (t *trial) readSlowly(ctx context.Context, accept string) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	defer c.close()
	answer, err := c.do(ctx, request{path: podsPath, query: "resourceVersion=0", accept: accept})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, newThrottled(ctx, answer.Body, t.SlowBytes))
	return err
}
