package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// The names of the servers.
const (
	nameWeir      = "weir"
	nameAPIServer = "kube-apiserver"
	nameEmbedded  = "the embedded server" // stands in for it
)

// target is one of the two servers, ready to be measured.
type target struct {
	name    string
	config  *rest.Config
	control *client // for what is not measured
	gauge   gauge
	asked   float64 // requests that the proxy has passed on because they were meant to be
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

// client returns a client with connections of its own. The caller must close it.
func (t *target) client() (*client, error) { return newClient(t.config) }

// metrics returns the server's metrics of the given names.
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

// passed returns how many requests the proxy has passed on to its upstream.
func (t *target) passed(ctx context.Context) (float64, error) {
	m, err := t.metrics(ctx, upstreamMetric)
	return m[ofCallers], err
}

// heap returns the server's live heap in bytes, after a garbage collection that it asks the server
// for. If the server cannot be asked, it returns the least that is seen while some collections come
// by themselves.
func (t *target) heap(ctx context.Context) (float64, error) {
	if !t.weir() {
		bytes, err := t.collectedHeap(ctx)
		if _, refused := errors.AsType[*answerError](err); !refused {
			return bytes, err
		}
		return t.provokedHeap(ctx)
	}
	before, err := t.passed(ctx)
	if err != nil {
		return 0, err
	}
	bytes, collectErr := t.collectedHeap(ctx)
	after, err := t.passed(ctx)
	switch {
	case err != nil:
		return 0, err
	case after == before && collectErr == nil:
		return bytes, nil
	}
	t.asked += after - before // what a proxy does not have, its upstream answers
	return t.provokedHeap(ctx)
}

// collectedHeap returns the heap after two garbage collections, so that what finalizers and pools
// held is gone too.
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

// parseHeapProfile returns the size of the heap that a heap profile in text has.
func parseHeapProfile(r io.Reader) (float64, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMetricLine)
	size := -1.0
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("heap profile: %w", err)
			}
			size = n
		}
	}
	if err := lines.Err(); err != nil || size < 0 {
		return 0, fmt.Errorf("heap profile: no HeapAlloc: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return size, nil
}

// maxProvocations bounds how often a server is asked for something in the hope of a garbage
// collection.
const maxProvocations = 20_000

func (t *target) provokedHeap(ctx context.Context) (float64, error) {
	const collections = 3 // the first may be under way already
	var least, until float64
	for i := range maxProvocations {
		m, err := t.metrics(ctx, heapMetric, gcMetric)
		if err != nil {
			return 0, err
		}
		if i == 0 {
			least, until = m[heapMetric], m[gcMetric]+collections
		}
		least = min(least, m[heapMetric])
		if m[gcMetric] >= until {
			return least, nil
		}
	}
	return 0, fmt.Errorf("%s does not collect its garbage", t.name)
}
