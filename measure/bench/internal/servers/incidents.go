package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// nextTry is how long a client waits after a request that has failed.
const nextTry = time.Second

// allAtOnce makes clients ask at once, each over connections of its own and again after a failure.
// It blocks until all have what they asked for or the options' Patience is over. The figures say
// how many have it, how many tries have failed, and, if all have it, after how long. If no client
// has it, allAtOnce returns an error.
func (t *trial) allAtOnce(ctx context.Context, clients int, ask func(ctx context.Context, c *client, i int) error) (Figures, error) {
	if err := enoughFiles(clients); err != nil {
		return nil, err
	}
	patient, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	var (
		all        sync.WaitGroup
		up, failed atomic.Int64
		mu         sync.Mutex
		last       error
	)
	begun := time.Now()
	for i := range clients {
		all.Go(func() {
			err := t.keepAsking(patient, i, ask, func() { failed.Add(1) })
			if err == nil {
				up.Add(1)
				t.told.Add(1)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			last = err
		})
	}
	all.Wait()
	f := Figures{"clients": float64(clients), "up": float64(up.Load()), "failed": float64(failed.Load())}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case last == nil:
		f["upSeconds"] = time.Since(begun).Seconds()
	case up.Load() == 0:
		return nil, fmt.Errorf("no client has got anything in %s: %w", t.Patience, last)
	default:
		t.say(fmt.Sprintf("%d of %d clients have got nothing in %s: %v", clients-int(up.Load()), clients, t.Patience, last))
	}
	return f, nil
}

// keepAsking asks until there is an answer or ctx ends. The error is that of the last try that was
// not cut off by the end of ctx, if there was one.
func (t *trial) keepAsking(ctx context.Context, i int, ask func(ctx context.Context, c *client, i int) error, failed func()) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	defer c.close()
	var last error
	for {
		t.requests.Add(1)
		err := ask(ctx, c, i)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && last != nil:
			return last
		case ctx.Err() != nil:
			return err
		}
		failed()
		last = err
		select {
		case <-time.After(nextTry):
		case <-ctx.Done():
			return last
		}
	}
}

// NodeAgents returns the incident of an agent on each node that gets the pods at its start, all
// after one rollout. The agents LIST everything, current or as the cache has it; they LIST the pods
// of their node; or they LIST everything through the proxy.
func NodeAgents() Replay {
	everything := func(*trial, int) string { return "" }
	return Replay{Every: 100 * time.Millisecond, Ways: []Way{
		{Label: `LIST of all, ""`, load: agents(everything)},
		{Label: `LIST of all, "0"`, load: agents(func(*trial, int) string { return "resourceVersion=0" })},
		{Label: "by field selector", load: agents(func(t *trial, i int) string {
			return "resourceVersion=0&fieldSelector=" + url.QueryEscape("spec.nodeName="+t.pods.nodes[i%len(t.pods.nodes)])
		})},
		{Label: "through weir-proxy", Proxy: true, load: agents(everything)},
	}}
}

// agents returns the load of agents that each make one LIST of a query.
func agents(query func(t *trial, i int) string) func(context.Context, *trial, func() error) (Figures, error) {
	return func(ctx context.Context, t *trial, begin func() error) (Figures, error) {
		if len(t.pods.nodes) == 0 {
			return nil, errors.New("no pod is on a node")
		}
		if err := begin(); err != nil {
			return nil, err
		}
		var bytes atomic.Int64
		f, err := t.allAtOnce(ctx, t.Kubelets, func(ctx context.Context, c *client, i int) error {
			n, err := c.discard(ctx, request{path: podsPath, query: query(t, i)})
			bytes.Add(n)
			return err
		})
		if err != nil {
			return nil, err
		}
		f["bytes"] = float64(bytes.Load())
		return f, nil
	}
}

// ThunderingRestart returns the incident of many controllers that start at once, each with an
// informer of all pods. The informers begin with a LIST, with a WATCH, or with a WATCH through the
// proxy.
func ThunderingRestart() Replay {
	by := func(join func(context.Context, *client, int) error) func(context.Context, *trial, func() error) (Figures, error) {
		return func(ctx context.Context, t *trial, begin func() error) (Figures, error) {
			if err := begin(); err != nil {
				return nil, err
			}
			return t.allAtOnce(ctx, t.Herd, join)
		}
	}
	return Replay{Every: 100 * time.Millisecond, Ways: []Way{
		{Label: "client-go, LIST", load: by(joinByList)},
		{Label: "client-go, WATCH", load: by(joinByWatch)},
		{Label: "through weir-proxy", Proxy: true, load: by(joinByWatch)},
	}}
}

// joinByWatch gets all pods as client-go's informers do since 0.35.
func joinByWatch(ctx context.Context, c *client, _ int) error {
	_, err := readInitial(ctx, c, watchFromNothing)
	return err
}

// joinByList gets all pods as client-go's informers did before.
func joinByList(ctx context.Context, c *client, _ int) error {
	_, err := countList(ctx, c, "resourceVersion=0")
	return err
}

// ConcurrentLists returns the incident of readers of full LISTs that take their time. They read
// from an API server, and from the proxy. An embedded server builds each answer in memory for it.
// If there is an RSSLimit, all readers are cut off when the server reaches it.
func ConcurrentLists() Replay {
	read := func(ctx context.Context, t *trial, begin func() error) (Figures, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if err := begin(); err != nil {
			return nil, err
		}
		limit, err := t.grow(ctx, t.RSSLimit, func() { cancel(errTooLarge) })
		if err != nil {
			return nil, err
		}
		broken := t.readAllSlowly(ctx, t.SlowProtobuf, t.SlowJSON)
		_, _, err = limit.stop(context.WithoutCancel(ctx))
		if cause := context.Cause(ctx); cause != nil && cause != errTooLarge {
			return nil, cause
		}
		return Figures{"readers": float64(t.SlowProtobuf + t.SlowJSON), "broken": float64(broken)}, err
	}
	return Replay{
		Every: 50 * time.Millisecond, ofAnswer: true, prepare: func(o *Options) { o.whole = true },
		Ways: []Way{{Label: "API server", load: read}, {Label: "weir-proxy", Proxy: true, load: read}},
	}
}

const (
	// labWatchBuffer is the largest buffer that kube-apiserver gives a watch of all pods, in changes.
	labWatchBuffer = 1000
	// busyRate is how many pods of the busy cluster change in a second.
	busyRate = 500
)

// InitialEvents returns the incident of a client that takes the initial events of a WATCH more
// slowly than a busy cluster fills its buffer, and starts again whenever the WATCH is closed. It
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
