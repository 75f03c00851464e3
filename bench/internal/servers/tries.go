package servers

import (
	"context"
	"errors"
	"time"
)

const (
	// labWatchBuffer is the largest buffer that kube-apiserver gives a watch of all pods, in changes.
	labWatchBuffer = 1000
	// busyRate is how many pods of the busy cluster change in a second.
	busyRate = 500
)

// InitialEvents returns the incident of a client that takes the initial events of a WATCH more
// slowly than a busy cluster fills its buffer, and begins anew whenever the WATCH is closed. It
// watches an API server that closes slow watches, and the proxy. If it does not get through, it is
// let go after the options' Duration.
func InitialEvents() Replay {
	return Replay{
		Every: 50 * time.Millisecond, ofAnswer: true, prepare: func(o *Options) { o.watchBuffer = labWatchBuffer },
		Ways: []Way{{Label: "API server", load: tryAgain}, {Label: "weir-proxy", Proxy: true, load: tryAgain}},
	}
}

// tryAgain watches until the initial events are through or its time is over, however often the
// watch is broken off. What is drawn is how many objects the current try has brought.
func tryAgain(ctx context.Context, t *trial, begin func() error) (Figures, error) {
	if t.writer == nil {
		return nil, ErrNoWrites
	}
	c, err := t.client()
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := begin(); err != nil {
		return nil, err
	}
	begun := time.Now()
	writing := startUpdates(ctx, t.writer, len(t.pods.keys), busyRate)
	defer writing.stop()
	trying, cancel := context.WithTimeout(ctx, t.Duration)
	defer cancel()
	f := Figures{"restarts": 0, "received": 0, "through": 0}
	for {
		n, err := t.try(trying, c)
		f["received"] += float64(n)
		switch {
		case err == nil:
			f["received"]-- // the bookmark
			f["through"], f["throughSeconds"] = 1, time.Since(begun).Seconds()
		case errors.Is(err, errClosed):
			if f["restarts"]++; f["restarts"] != t.restarts {
				continue
			}
		case trying.Err() == nil || ctx.Err() != nil:
			return nil, err
		}
		_, err = writing.stop()
		f["updatesPerSecond"] = t.reached(writing.rate(), busyRate)
		return f, err
	}
}

// try opens one WATCH and reads it at a limited rate until its initial events are through. It
// returns how many events came, the bookmark at their end among them.
func (t *trial) try(ctx context.Context, c *client) (events int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.requests.Add(1)
	watch, body, err := c.watch(ctx, watchWithState)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	f := newFollower(watch)
	err = f.follow(ctx, &rateLimiter{perSecond: t.ReadRate}, func() bool {
		if !f.initial { // else the last one is a bookmark
			t.told.Store(f.events)
		}
		return f.initial
	})
	return f.events, err
}
