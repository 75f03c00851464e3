package informers

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// eventKind is the kind of an event that a handler receives.
type eventKind uint8

const (
	added eventKind = iota
	updated
	deleted
	resynced // an object that is delivered again, unchanged
)

// handler receives events by key, as one that fills a work queue does. It is called by one
// goroutine at a time.
type handler func(kind eventKind, key string)

// informer is what is measured: weir's, client-go's, or several. The methods are called by one
// goroutine, in the order handle*, run, the rest, stop.
type informer interface {
	// handle registers a handler, which receives every object again once per resync period; 0: never.
	handle(resync time.Duration, h handler) error
	// run starts to list and watch, in the background, until stop.
	run(ctx context.Context)
	// waitSync blocks until every handler has handled all of the first list.
	waitSync(ctx context.Context) error
	// stop ends everything that run started, and waits for it.
	stop() error

	len() int
	resourceVersion() string
}

// reader reads the objects of an informer of one kind.
type reader interface {
	// get reads the object of a key, decoded. An object that was deleted is no error.
	get(key string) error
	// list reads every object, decoded, and counts them.
	list() (int, error)
	// index adds an index: by label, or by a function that returns the label of an object.
	index(name string, byFunc bool) error
	// by reads the objects with a value of an index, decoded, and counts them.
	by(index, value string) (int, error)
	// pick returns the keys of up to n objects and up to n values of the index, spread evenly, without
	// decoding.
	pick(n int) (keys, values []string, err error)
}

// appLabel is the label that the informers are indexed by.
const appLabel = "app"

const indexName = "app"

// meter observes the transport of an informer: it counts the requests and can close idle
// connections.
type meter struct {
	requests         atomic.Int64
	lists, mostLists atomic.Int64           // that are being read, and the most at a time
	arrivals         atomic.Pointer[delays] // note when a watch's events arrive; nil: none

	mu         sync.Mutex
	transports []http.RoundTripper
}

// install puts the meter on a copy of cfg.
func (m *meter) install(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.transports = append(m.transports, rt)
		return &counting{RoundTripper: rt, meter: m}
	})
	return cfg
}

// closeIdle closes the connections that no request uses, so that their goroutines do not count as a
// leak.
func (m *meter) closeIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rt := range m.transports {
		utilnet.CloseIdleConnectionsFor(rt)
	}
}

type counting struct {
	http.RoundTripper
	meter *meter
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.meter.requests.Add(1)
	watch := r.URL.Query().Get("watch")
	switch {
	case r.URL.Path == "/version":
		return c.RoundTripper.RoundTrip(r)
	case watch == "" || watch == "false":
		return c.list(r)
	}
	answer, err := c.RoundTripper.RoundTrip(r)
	if d := c.meter.arrivals.Load(); err == nil && d != nil {
		answer.Body = &framed{ReadCloser: answer.Body, arrive: d.arrive}
	}
	return answer, err
}

// list counts a LIST until its body is closed.
func (c *counting) list(r *http.Request) (*http.Response, error) {
	now := c.meter.lists.Add(1)
	for most := c.meter.mostLists.Load(); now > most && !c.meter.mostLists.CompareAndSwap(most, now); {
		most = c.meter.mostLists.Load()
	}
	done := sync.OnceFunc(func() { c.meter.lists.Add(-1) })
	answer, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		done()
		return nil, err
	}
	answer.Body = &closing{answer.Body, done}
	return answer, nil
}

// closing calls done when the body is closed.
type closing struct {
	io.ReadCloser
	done func()
}

func (c *closing) Close() error {
	c.done()
	return c.ReadCloser.Close()
}

// WrappedRoundTripper returns the transport behind this one.
func (c *counting) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }
