package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// The names of the servers.
const (
	nameWeir      = "weir"
	nameAPIServer = "kube-apiserver"
	nameEmbedded  = "the embedded server" // replaces kube-apiserver
)

// target is one of the two servers, ready to be measured.
type target struct {
	name    string
	config  *rest.Config
	control *client // for requests that are not measured
	gauge   gauge
}

func newTarget(ctx context.Context, name string, cfg *rest.Config) (*target, error) {
	control, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	t := &target{name: name, config: cfg, control: control}
	t.gauge = newGauge(ctx, t)
	return t, nil
}

func (t *target) weir() bool { return t.name == nameWeir }

func (t *target) close() { t.control.close() }

// client returns a client with separate connections. The caller must close it.
func (t *target) client() *client { return figures.Must(newClient(t.config)) }

// metrics returns the server's metrics with the given names.
func (t *target) metrics(ctx context.Context, names ...string) (samples, error) {
	answer, err := t.control.do(ctx, request{path: "/metrics", accept: "text/plain"})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return parseMetrics(answer.Body, names...)
}

const (
	upstreamMetric = "weir_proxy_upstream_requests_total"
	ofCallers      = upstreamMetric + `{for="forwarded"}`
	ofItsOwn       = upstreamMetric + `{for="all"}`
	servedMetric   = "weir_proxy_served_total"
)

// heap returns the server's live heap in bytes, after a garbage collection that it requests. A
// proxy does not support that request, and other servers may refuse it. In both cases, heap returns
// the smallest size that it sees during some garbage collections.
func (t *target) heap(ctx context.Context) float64 {
	if t.weir() {
		return t.provokedHeap(ctx)
	}
	bytes, err := t.collectedHeap(ctx)
	if _, refused := errors.AsType[*answerError](err); refused {
		return t.provokedHeap(ctx)
	}
	return figures.Must(bytes, err)
}

// collectedHeap returns the heap after two garbage collections. The second collection also frees
// the memory of finalizers and pools.
func (t *target) collectedHeap(ctx context.Context) (bytes float64, err error) {
	for range 2 {
		answer, err := t.control.do(ctx, request{path: "/debug/pprof/heap", query: "gc=1&debug=1", accept: "text/plain"})
		if err != nil {
			return 0, err
		}
		bytes, err = parseHeapProfile(answer.Body)
		answer.Body.Close()
		if err != nil {
			return 0, err
		}
	}
	return bytes, nil
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (.*)$`)

// parseHeapProfile returns the size of the heap in a heap profile in text format.
func parseHeapProfile(r io.Reader) (float64, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return 0, fmt.Errorf("heap profile: %w", err)
	}
	found := heapAlloc.FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("heap profile: no HeapAlloc: %w", io.ErrUnexpectedEOF)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// maxProvocations limits how many requests are sent to a server to cause garbage collections.
const maxProvocations = 20_000

func (t *target) provokedHeap(ctx context.Context) float64 {
	const collections = 3 // the first one may already be running
	var least, until float64
	for i := range maxProvocations {
		m := figures.Must(t.metrics(ctx, heapMetric, gcMetric))
		if i == 0 {
			least, until = m[heapMetric], m[gcMetric]+collections
		}
		least = min(least, m[heapMetric])
		if m[gcMetric] >= until {
			return least
		}
	}
	figures.Check(fmt.Errorf("%s does not collect its garbage", t.name))
	return 0
}
