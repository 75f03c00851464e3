package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/quantity"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/doctor/cost"
)

const (
	// costWatchers and costUpdates are what the cost of an event is measured with.
	costWatchers = 40
	costUpdates  = 50
	// costWorkers make small requests at once: a busy server takes less for each than one that
	// is asked now and then.
	costWorkers = stormWorkers
	// fewestRepeats is how often a request is made at least to know what one costs.
	fewestRepeats = 3
	// pageSize is that of client-go's pager, and of kubectl.
	pageSize = 500
)

// MeasureCosts measures the coefficients of package cost on a kube-apiserver, or on the embedded
// server in its place, and on a proxy in front of it. It then measures what the incidents of
// servers cost, beside what these coefficients predict for them. On a kube-apiserver the cost of an
// event needs the options' Writes or EtcdURL; without these it is 0.
func MeasureCosts(ctx context.Context, o Options) (*cost.Model, error) {
	b, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	m := &cost.Model{Measured: cost.Measured{
		At: time.Now().UTC().Truncate(time.Second), Objects: int64(b.Pods()),
		CPU: cpuName(), CPUs: runtime.NumCPU(), Go: runtime.Version(),
	}}
	if m.Measured.Server, err = b.direct.version(ctx); err != nil {
		return nil, err
	}
	meter := costMeter{t: b.newTrial(b.direct)}
	// Memory comes first: a server keeps what other requests have made it take.
	if m.Memory, err = meter.memory(ctx); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	if m.Server, m.Measured.ObjectBytes, err = meter.coefficients(ctx); err != nil {
		return nil, fmt.Errorf("the API server: %w", err)
	}
	err = b.withProxy(ctx, func(ours *target) error {
		meter := costMeter{t: b.newTrial(ours)}
		m.Proxy, _, err = meter.coefficients(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the proxy: %w", err)
	}
	paged, err := meter.checkPages(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if m.Checks, err = check(ctx, b.o, m); err != nil {
		return nil, err
	}
	m.Checks = append(m.Checks, paged...)
	return m, nil
}

// version returns the name of the server, and its version if it tells one.
func (t *target) version(ctx context.Context) (string, error) {
	answer, err := t.control.do(ctx, request{path: "/version", accept: wire.ContentTypeJSON})
	if _, none := errors.AsType[*answerError](err); none {
		return t.name, nil
	}
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var v struct{ GitVersion string }
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&v); err != nil {
		return "", fmt.Errorf("GET /version: %w", err)
	}
	return strings.TrimSpace(t.name + " " + v.GitVersion), nil
}

// costMeter measures what each part of a request costs one server.
type costMeter struct {
	t *trial
	c *client
	k cost.Coefficients
}

// coefficients measures all coefficients. objectBytes is the mean size of an object.
func (m *costMeter) coefficients(
	ctx context.Context,
) (_ cost.Coefficients, objectBytes float64, err error) {
	if m.c, err = m.t.client(); err != nil {
		return m.k, 0, err
	}
	defer m.c.close()
	if m.k.Idle, err = m.idleCores(ctx); err != nil {
		return m.k, 0, err
	}
	if err := m.small(ctx); err != nil {
		return m.k, 0, err
	}
	if objectBytes, err = m.full(ctx); err != nil {
		return m.k, 0, err
	}
	if err := m.selective(ctx, objectBytes); err != nil {
		return m.k, 0, err
	}
	m.k.Event, err = m.event(ctx)
	m.t.say(fmt.Sprintf("%+v", m.k))
	return m.k, objectBytes, err
}

func (m *costMeter) idleCores(ctx context.Context) (float64, error) {
	begin := time.Now()
	cpu, err := m.t.spent(ctx, func() error {
		select {
		case <-time.After(m.t.Cheap):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return cpu / time.Since(begin).Seconds(), err
}

// each returns the CPU time in seconds that one call of do costs the server, without what an idle
// server uses. It repeats do for a while.
func (m *costMeter) each(ctx context.Context, do func() error) (float64, error) {
	if err := do(); err != nil { // so that caches are filled
		return 0, err
	}
	n, begin := 0, time.Now()
	cpu, err := m.t.spent(ctx, func() error {
		for n < fewestRepeats || time.Since(begin) < m.t.Cheap {
			if err := do(); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return max(cpu-m.k.Idle*time.Since(begin).Seconds(), 0) / float64(n), err
}

// busy returns what a small request costs, as each does, if several workers make such requests at
// once.
func (m *costMeter) busy(ctx context.Context, do func() error) (float64, error) {
	begin, requests := time.Now(), busyRequests
	for range triedRequests {
		if err := do(); err != nil {
			return 0, err
		}
	}
	if time.Since(begin) > triedRequests*slowRequest {
		requests = 1
	}
	return m.atOnce(ctx, costWorkers, requests, do)
}

// atOnce returns what a request costs, as each does, if workers make such requests at once, several
// each.
func (m *costMeter) atOnce(ctx context.Context, workers, requests int, do func() error) (float64, error) {
	each, err := m.each(ctx, func() error {
		failed := make([]error, workers)
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				for range requests {
					if err := do(); err != nil {
						failed[i] = err
						return
					}
				}
			})
		}
		all.Wait()
		return errors.Join(failed...)
	})
	return each / float64(workers*requests), err
}

const (
	// busyRequests is how many requests each worker makes before it waits for the others.
	busyRequests = 10
	// slowRequest is how long a request takes that mostly waits, as a proxy does for a proof that it
	// is current. Each worker makes one of these. It shows in the mean of triedRequests: the first
	// ones need not wait.
	slowRequest   = 100 * time.Millisecond
	triedRequests = 4
)

// small measures requests that find nothing, which cost what every request costs, and what a
// current answer and a connection add to that.
func (m *costMeter) small(ctx context.Context) (err error) {
	const none = "/api/v1/namespaces/none-of-this-name/pods"
	get := func(c *client, query string) error {
		_, err := c.discard(ctx, request{path: none, query: query})
		return err
	}
	m.k.Request, err = m.busy(ctx, func() error { return get(m.c, "resourceVersion=0") })
	if err != nil {
		return err
	}
	quorum, err := m.busy(ctx, func() error { return get(m.c, "") })
	if err != nil {
		return err
	}
	connected, err := m.busy(ctx, func() error {
		c, err := m.t.client()
		if err != nil {
			return err
		}
		defer c.close()
		return get(c, "resourceVersion=0")
	})
	m.k.Quorum, m.k.Connection = max(quorum-m.k.Request, 0), max(connected-m.k.Request, 0)
	return err
}

// full measures answers with everything, in each encoding. objectBytes is the mean size of an
// object.
func (m *costMeter) full(ctx context.Context) (objectBytes float64, err error) {
	m.k.Encodings = map[cost.Encoding]cost.Sent{}
	var stored float64
	var size atomic.Int64
	list := func(accept string, gzip bool) func() error {
		return func() error {
			n, err := m.c.discard(ctx, request{
				path: podsPath, query: "resourceVersion=0", accept: accept, gzip: gzip,
			})
			size.Store(n)
			return err
		}
	}
	for _, f := range []struct {
		encoding cost.Encoding
		do       func() error
	}{
		{cost.Protobuf, list("", false)},
		{cost.ProtobufGzip, list("", true)},
		{cost.JSON, list(wire.ContentTypeJSON, false)},
		{cost.JSONGzip, list(wire.ContentTypeJSON, true)},
		{cost.Initial, func() error { _, err := readInitial(ctx, m.c, watchWithState); return err }},
	} {
		spent, err := m.atOnce(ctx, fewAtOnce, 1, f.do)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.encoding, err)
		}
		if f.encoding == cost.Protobuf {
			stored = float64(size.Load())
		}
		if f.encoding == cost.Initial {
			size.Store(int64(stored)) // but for some bytes of each event
		}
		m.k.Encodings[f.encoding] = cost.Sent{Seconds: max(spent-m.k.Request, 0) / stored, Bytes: float64(size.Load()) / stored}
	}
	return stored / float64(len(m.t.pods.keys)), nil
}

// selective measures LISTs by a label that few pods have. What it costs to send these is known, and
// taken off.
func (m *costMeter) selective(ctx context.Context, objectBytes float64) error {
	if len(m.t.pods.apps) == 0 {
		return errors.New("no pod has a label that one would select by")
	}
	var lists, found atomic.Int64
	step := figures.Stride(len(m.t.pods.apps))
	spent, err := m.busy(ctx, func() error {
		selector := m.t.pods.apps[int(lists.Add(1))*step%len(m.t.pods.apps)]
		n, err := countList(ctx, m.c, "resourceVersion=0&labelSelector="+url.QueryEscape(selector))
		found.Add(int64(n))
		return err
	})
	sent := float64(found.Load()) / float64(lists.Load()) * objectBytes
	sent *= m.k.Encodings[cost.Protobuf].Seconds
	m.k.Looked = max(spent-m.k.Request-sent, 0) / float64(len(m.t.pods.keys))
	return err
}

// event measures what an event costs that is sent to many WATCHes. It returns 0 if pods may not be
// changed.
func (m *costMeter) event(ctx context.Context) (float64, error) {
	if m.t.writer == nil {
		return 0, nil
	}
	cores := func() (float64, error) {
		begin := time.Now()
		cpu, err := m.t.spent(ctx, func() error { _, err := m.t.writeFor(ctx, costUpdates); return err })
		return cpu / time.Since(begin).Seconds(), err
	}
	alone, err := cores()
	if err != nil {
		return 0, err
	}
	queries := make([]string, costWatchers)
	for i := range queries {
		queries[i] = watchWithState
	}
	w, err := m.t.openWatchers(ctx, queries)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	before, begin := w.events.Load(), time.Now()
	with, err := cores()
	if err != nil {
		return 0, err
	}
	events := float64(w.events.Load()-before) / time.Since(begin).Seconds()
	if events == 0 {
		return 0, fmt.Errorf("%d watchers had no event", costWatchers)
	}
	return max(with-alone, 0) / events, nil
}

// The numbers of LISTs at once by which memory is measured.
const (
	fewAtOnce  = 4
	manyAtOnce = 32
)

// memory measures how the server grows with full LISTs at once.
func (m *costMeter) memory(ctx context.Context) (out cost.Memory, err error) {
	all, err := m.t.control.discard(ctx, request{path: podsPath, query: "resourceVersion=0"})
	if err != nil {
		return out, err
	}
	rest, _, err := m.t.gauge.memory(ctx)
	if err != nil {
		return out, err
	}
	var peaks [2]float64
	for i, n := range []int{fewAtOnce, manyAtOnce} {
		g, err := m.t.grow(ctx, 0, nil)
		if err != nil {
			return out, err
		}
		_, err = m.t.allAtOnce(ctx, n, joinByList)
		_, peak, stopErr := g.stop(ctx)
		if err = errors.Join(err, stopErr); err != nil {
			return out, err
		}
		peaks[i] = peak
	}
	m.t.say(fmt.Sprintf("at rest %s, with %d LISTs %s, with %d %s", quantity.Bytes(int64(rest)),
		fewAtOnce, quantity.Bytes(int64(peaks[0])), manyAtOnce, quantity.Bytes(int64(peaks[1]))))
	out.Held = max(peaks[1]-peaks[0], 0) / (manyAtOnce - fewAtOnce) / float64(all)
	out.Headroom = max(peaks[0]-fewAtOnce*float64(all)*out.Held-rest, 0) / rest
	return out, nil
}
