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
	resynced // an unchanged object, from a resync
)

// handler receives the keys of events, like a handler that fills a work queue. It is not called
// concurrently.
type handler func(kind eventKind, key string)

// informer is a measured informer: weir's, client-go's, or a group. One goroutine calls the
// methods, in this order: handle several times, run, the other methods, stop.
type informer interface {
	// handle registers a handler. The handler receives every object again after each period of the
	// length resync. If resync is 0, it does not.
	handle(resync time.Duration, h handler) error
	// run starts to list and watch in the background, until stop is called.
	run(ctx context.Context)
	// waitSync blocks until every handler has handled all objects of the first list.
	waitSync(ctx context.Context) error
	// stop stops everything that run started, and waits until it has ended.
	stop() error

	len() int
	resourceVersion() string
}

// reader reads the objects of an informer of one kind.
type reader interface {
	// get reads the decoded object of a key. If the object was deleted, get returns no error.
	get(key string) error
	// list reads all objects, decoded, and returns their number.
	list() (int, error)
	// index adds an index by label. If byFunc is set, the index uses a function that returns the
	// label.
	index(name string, byFunc bool) error
	// by reads the decoded objects that have a value in an index, and returns their number.
	by(index, value string) (int, error)
	// pick returns the keys of up to n objects, and up to n values of the index. The objects and
	// values are spread evenly. pick does not decode objects.
	pick(n int) (keys, values []string, err error)
}

// appLabel is the label by which informers are indexed.
const appLabel = "app"

const indexName = "app"

// meter observes an informer's transport. It counts requests and can close idle connections.
type meter struct {
	requests         atomic.Int64
	lists, mostLists atomic.Int64           // how many LISTs are read now; the most at the same time
	arrivals         atomic.Pointer[delays] // records when events of a watch arrive; nil: none

	mu         sync.Mutex
	transports []http.RoundTripper
}

// install returns a copy of cfg whose requests the meter observes.
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

// closeIdle closes idle connections, so that their goroutines do not count as a leak.
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

// list sends a LIST, which counts as running until its body is closed.
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

// closing is a body that calls the function done when it is closed.
type closing struct {
	io.ReadCloser
	done func()
}

func (c *closing) Close() error {
	c.done()
	return c.ReadCloser.Close()
}

// WrappedRoundTripper returns the transport that c wraps.
func (c *counting) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }
