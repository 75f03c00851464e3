package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// nextTry is how long a client waits after a failed request.
const nextTry = time.Second

// allAtOnce starts clients that call ask at the same time, each with separate connections. A client
// whose call fails repeats it. allAtOnce blocks until all have succeeded or the options' Patience
// has passed. The figures are the number of clients that succeeded, the number of failed calls and,
// if all succeeded, the time. If no client succeeded, allAtOnce returns an error.
func (t *trial) allAtOnce(ctx context.Context, clients int, ask func(ctx context.Context, c *client, i int) error) Figures {
	figures.Check(enoughFiles(clients))
	patient, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	var all sync.WaitGroup
	var tries atomic.Int64
	errs := make([]error, clients) // one for each client that did not succeed
	begun := time.Now()
	for i := range clients {
		all.Go(func() {
			if errs[i] = t.keepAsking(patient, i, ask, &tries); errs[i] == nil {
				t.told.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	figures.Check(context.Cause(ctx))
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	up := clients - len(errs)
	f := Figures{"clients": float64(clients), "up": float64(up), "failed": float64(tries.Load())}
	switch {
	case len(errs) == 0:
		f["upSeconds"] = took
	case up == 0:
		figures.Check(errs[0], "no client received anything in ", t.Patience)
	default:
		t.say(fmt.Sprintf("%d of %d clients received nothing in %s: %v", len(errs), clients, t.Patience, errs[0]))
	}
	return f
}

// keepAsking calls ask until it succeeds or ctx ends, and counts failed tries in failed. If ctx
// ends, it returns the error of the last try that failed before ctx ended. If there was none, it
// returns the error of the current try.
func (t *trial) keepAsking(ctx context.Context, i int, ask func(ctx context.Context, c *client, i int) error, failed *atomic.Int64) error {
	return figures.Attempt(func() {
		c := t.client()
		defer c.close()
		var last error
		for {
			t.requests.Add(1)
			err := ask(ctx, c, i)
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				figures.Check(cmp.Or(last, err))
			}
			failed.Add(1)
			if last = err; pause(ctx, nextTry) != nil {
				figures.Check(last)
			}
		}
	})
}

// NodeAgents is the incident of a rollout that starts an agent on each node at the same time. Each
// agent gets the pods. The incident has one way for each kind of LIST: of all pods from etcd, of
// all pods from the watch cache, of the pods of the agent's node, and of all pods through the
// proxy.
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

// agents returns the load of agents that each send one LIST with a query.
func agents(query func(t *trial, i int) string) load {
	return func(ctx context.Context, t *trial, begin func()) Figures {
		figures.Require(len(t.pods.nodes) > 0, errNoNodes)
		begin()
		var bytes atomic.Int64
		f := t.allAtOnce(ctx, t.Kubelets, func(ctx context.Context, c *client, i int) error {
			n, err := c.discard(ctx, request{path: podsPath, query: query(t, i)})
			bytes.Add(n)
			return err
		})
		f["bytes"] = float64(bytes.Load())
		return f
	}
}

// ThunderingRestart is the incident of many controllers that start at the same time, each with an
// informer of all pods. It has three ways: the informers start with a LIST, with a WATCH, or with a
// WATCH through the proxy.
func ThunderingRestart() Replay {
	by := func(join func(context.Context, *client, int) error) load {
		return func(ctx context.Context, t *trial, begin func()) Figures {
			begin()
			return t.allAtOnce(ctx, t.Herd, join)
		}
	}
	return Replay{Every: 100 * time.Millisecond, Ways: []Way{
		{Label: "client-go, LIST", load: by(joinByList)},
		{Label: "client-go, WATCH", load: by(joinByWatch)},
		{Label: "through weir-proxy", Proxy: true, load: by(joinByWatch)},
	}}
}

// joinByWatch gets all pods with a WATCH, like informers of client-go 0.35 and later.
func joinByWatch(ctx context.Context, c *client, _ int) error {
	_, err := readInitial(ctx, c, watchFromNothing)
	return err
}

// joinByList gets all pods with a LIST, like client-go's informers before 0.35.
func joinByList(ctx context.Context, c *client, _ int) error {
	_, err := countList(ctx, c, "resourceVersion=0")
	return err
}

// ConcurrentLists is the incident of readers that read full LISTs slowly, from an API server or
// from the proxy. For this incident, an embedded server builds each answer in memory before it
// sends the answer.
func ConcurrentLists() Replay {
	read := func(ctx context.Context, t *trial, begin func()) Figures {
		return t.slowLists(ctx, t.SlowProtobuf, t.SlowJSON, begin)
	}
	return Replay{
		Every: 50 * time.Millisecond, ofAnswer: true, prepare: func(o *Options) { o.whole = true },
		Ways: []Way{{Label: "API server", load: read}, {Label: "weir-proxy", Proxy: true, load: read}},
	}
}

const (
	// labWatchBuffer is the largest number of changes that kube-apiserver buffers for a watch of all
	// pods.
	labWatchBuffer = 1000
	// busyRate is the number of pods of the busy cluster that change per second.
	busyRate = 500
)

// InitialEvents is the incident of a client that reads the initial events of a WATCH slowly. A busy
// cluster fills the WATCH's buffer before the client has read these events. The incident has two
// ways: the client watches an API server that closes slow watches, or the proxy. The client starts
// again whenever the server closes the WATCH. If the client never reads all initial events, the
// replay ends after the options' Duration.
func InitialEvents() Replay {
	return Replay{
		Every: 50 * time.Millisecond, ofAnswer: true, prepare: func(o *Options) { o.watchBuffer = labWatchBuffer },
		Ways: []Way{{Label: "API server", load: tryAgain}, {Label: "weir-proxy", Proxy: true, load: tryAgain}},
	}
}

// tryAgain opens a WATCH. Whenever the server closes the WATCH, tryAgain opens another one. It ends
// when it has read all initial events of one WATCH, or after the options' Duration. The trace shows
// the number of objects that the current WATCH has sent.
func tryAgain(ctx context.Context, t *trial, begin func()) Figures {
	figures.Require(t.writer != nil, ErrNoWrites)
	c := t.client()
	defer c.close()
	begin()
	begun := time.Now()
	writing := startUpdates(ctx, t.writer, len(t.pods.keys), busyRate)
	defer writing.stop()
	trying, cancel := context.WithTimeout(ctx, t.Duration)
	defer cancel()
	f := Figures{"restarts": 0, "received": 0, "through": 0}
	var err error
	for {
		var n int64
		n, err = t.try(trying, c)
		f["received"] += float64(n)
		if !errors.Is(err, errClosed) {
			break
		}
		if f["restarts"]++; f["restarts"] == t.restarts {
			break
		}
	}
	if err == nil {
		f["received"]-- // do not count the bookmark
		f["through"], f["throughSeconds"] = 1, time.Since(begun).Seconds()
	} else if !errors.Is(err, errClosed) && (trying.Err() == nil || ctx.Err() != nil) {
		figures.Check(err)
	}
	figures.Must(writing.stop())
	f["updatesPerSecond"] = t.reached(writing.rate(), busyRate)
	return f
}

// try opens one WATCH and reads it at a limited rate until all initial events were read. It returns
// the number of received events, including the bookmark after the initial events.
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
	err = f.follow(ctx, newLimiter(t.ReadRate), func() bool {
		if !f.initial { // otherwise the last event was a bookmark
			t.told.Store(f.events)
		}
		return f.initial
	})
	return f.events, err
}
