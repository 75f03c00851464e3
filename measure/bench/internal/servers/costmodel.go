package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/doctor/cost"
)

const (
	// The cost of an event is measured with costWatchers watchers and costUpdates updates a second.
	costWatchers = 40
	costUpdates  = 50
	// costWorkers is the number of workers that send small requests at the same time. A busy server
	// needs less CPU time per request than a server that receives only a few requests.
	costWorkers = stormWorkers
	// fewestRepeats is the least number of requests from which the mean cost of a request is computed.
	fewestRepeats = 3
	// pageSize is the page size of client-go's pager and of kubectl.
	pageSize = 500
)

// MeasureCosts measures the coefficients of package cost on a kube-apiserver and on a proxy in
// front of it. It then measures the cost of the incidents of servers, and compares it with the
// predictions of these coefficients. If the options name no kube-apiserver, an embedded server
// replaces it. On a kube-apiserver, MeasureCosts can measure the cost of an event only with the
// options' Writes or EtcdURL; otherwise that cost is 0.
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
	return m, figures.Attempt(func() {
		m.Measured.Server = figures.Must(b.direct.version(ctx))
		meter := costMeter{t: b.newTrial(b.direct)}
		// Measure memory first, because other requests make the server keep memory.
		m.Memory = meter.memory(ctx)
		m.Server, m.Measured.ObjectBytes = meter.coefficients(ctx)
		figures.Check(b.withProxy(ctx, func(ours *target) error {
			return figures.Attempt(func() {
				meter := costMeter{t: b.newTrial(ours)}
				m.Proxy, _ = meter.coefficients(ctx)
			})
		}), "the proxy")
		paged := meter.checkPages(ctx, m)
		m.Checks = append(compareIncidents(ctx, b.o, m), paged...)
	})
}

// version returns the name of the server, followed by its version if the server reports one.
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

// costMeter measures what each part of a request costs a server.
type costMeter struct {
	t *trial
	c *client
	k cost.Coefficients
}

// coefficients measures all coefficients. objectBytes is the mean stored size of an object.
func (m *costMeter) coefficients(ctx context.Context) (_ cost.Coefficients, objectBytes float64) {
	m.c = m.t.client()
	defer m.c.close()
	m.k.Idle = m.t.cores(ctx, func() { figures.Check(pause(ctx, m.t.Cheap)) })
	m.small(ctx)
	objectBytes = m.full(ctx)
	m.selective(ctx, objectBytes)
	m.k.Event = m.event(ctx)
	m.t.say(fmt.Sprintf("%+v", m.k))
	return m.k, objectBytes
}

// each returns the server's CPU time for one call of the function do, in seconds, minus the CPU
// time of an idle server. It calls do repeatedly, for at least t.Cheap.
func (m *costMeter) each(ctx context.Context, do func() error) float64 {
	figures.Check(do()) // fills caches
	n, begin := 0, time.Now()
	cpu := m.t.spent(ctx, func() {
		for n < fewestRepeats || time.Since(begin) < m.t.Cheap {
			figures.Check(do())
			n++
		}
	})
	return max(cpu-m.k.Idle*time.Since(begin).Seconds(), 0) / float64(n)
}

// busy measures like the method each, but several workers send small requests at the same time. It
// returns the cost of one request.
func (m *costMeter) busy(ctx context.Context, do func() error) float64 {
	begin, requests := time.Now(), busyRequests
	for range triedRequests {
		figures.Check(do())
	}
	if time.Since(begin) > triedRequests*slowRequest {
		requests = 1
	}
	return m.atOnce(ctx, costWorkers, requests, do)
}

// atOnce measures like the method each, but several workers send requests at the same time.
// requests is the number of requests of one worker. atOnce returns the cost of one request.
func (m *costMeter) atOnce(ctx context.Context, workers, requests int, do func() error) float64 {
	each := m.each(ctx, func() error {
		var all errgroup.Group
		for range workers {
			all.Go(func() error {
				for range requests {
					if err := do(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return all.Wait()
	})
	return each / float64(workers*requests)
}

const (
	// busyRequests is the number of requests that each worker sends before it waits for the other
	// workers.
	busyRequests = 10
	// Requests that take at least slowRequest on average mostly wait: a proxy's requests wait if the
	// proxy must prove that its cache is current. Each worker then sends one request instead of
	// busyRequests. The average is of triedRequests requests, because the first ones may not wait.
	slowRequest   = 100 * time.Millisecond
	triedRequests = 4
)

// small measures requests that find no object: the cost of any request, and the additional costs of
// reading from etcd and of a connection.
func (m *costMeter) small(ctx context.Context) {
	const none = "/api/v1/namespaces/none-of-this-name/pods"
	get := func(c *client, query string) error {
		_, err := c.discard(ctx, request{path: none, query: query})
		return err
	}
	m.k.Request = m.busy(ctx, func() error { return get(m.c, "resourceVersion=0") })
	quorum := m.busy(ctx, func() error { return get(m.c, "") })
	connected := m.busy(ctx, func() error {
		return figures.Attempt(func() {
			c := m.t.client()
			defer c.close()
			figures.Check(get(c, "resourceVersion=0"))
		})
	})
	m.k.Quorum, m.k.Connection = max(quorum-m.k.Request, 0), max(connected-m.k.Request, 0)
}

// full measures answers with all pods, in each encoding. objectBytes is the mean stored size of a
// pod.
func (m *costMeter) full(ctx context.Context) (objectBytes float64) {
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
		spent := m.atOnce(ctx, fewAtOnce, 1, f.do)
		if f.encoding == cost.Protobuf {
			stored = float64(size.Load())
		}
		if f.encoding == cost.Initial {
			size.Store(int64(stored)) // without the few additional bytes of each event
		}
		m.k.Encodings[f.encoding] = cost.Sent{Seconds: max(spent-m.k.Request, 0) / stored, Bytes: float64(size.Load()) / stored}
	}
	return stored / float64(len(m.t.pods.keys))
}

// selective measures LISTs by a label that few pods have. It subtracts the cost of sending the pods
// that are found, which full has measured.
func (m *costMeter) selective(ctx context.Context, objectBytes float64) {
	figures.Require(len(m.t.pods.apps) > 0, errNoApps)
	var lists, found atomic.Int64
	step := figures.Stride(len(m.t.pods.apps))
	spent := m.busy(ctx, func() error {
		selector := m.t.pods.apps[int(lists.Add(1))*step%len(m.t.pods.apps)]
		n, err := countList(ctx, m.c, "resourceVersion=0&labelSelector="+url.QueryEscape(selector))
		found.Add(int64(n))
		return err
	})
	sent := float64(found.Load()) / float64(lists.Load()) * objectBytes
	sent *= m.k.Encodings[cost.Protobuf].Seconds
	m.k.Looked = max(spent-m.k.Request-sent, 0) / float64(len(m.t.pods.keys))
}

// event measures the cost of an event that is sent to many WATCHes. It returns 0 if pods may not be
// changed.
func (m *costMeter) event(ctx context.Context) float64 {
	if m.t.writer == nil {
		return 0
	}
	write := func() { m.t.writeFor(ctx, m.t.writer, costUpdates) }
	alone := m.t.cores(ctx, write)
	w := m.t.openWatchers(ctx, slices.Repeat([]string{watchWithState}, costWatchers))
	defer w.stop()
	before, begin := w.events.Load(), time.Now()
	with := m.t.cores(ctx, write)
	events := float64(w.events.Load()-before) / time.Since(begin).Seconds()
	figures.Require(events > 0, fmt.Errorf("%d watchers had no event", costWatchers))
	return max(with-alone, 0) / events
}

// Memory is measured with these numbers of LISTs at the same time.
const (
	fewAtOnce  = 4
	manyAtOnce = 32
)

// memory measures how much the server's memory grows during full LISTs that run at the same time.
func (m *costMeter) memory(ctx context.Context) (out cost.Memory) {
	all := float64(figures.Must(m.t.control.discard(ctx, request{path: podsPath, query: "resourceVersion=0"})))
	rest, _, err := m.t.gauge.memory(ctx)
	figures.Check(err)
	peakOf := func(lists int) float64 {
		g := m.t.grow(ctx, 0, nil)
		defer g.end()
		m.t.allAtOnce(ctx, lists, joinByList)
		_, peak := g.stop(ctx)
		return peak
	}
	few, many := peakOf(fewAtOnce), peakOf(manyAtOnce)
	m.t.say(fmt.Sprintf("at rest %s, with %d LISTs %s, with %d %s", humanize.Bytes(int64(rest)),
		fewAtOnce, humanize.Bytes(int64(few)), manyAtOnce, humanize.Bytes(int64(many))))
	out.Held = max(many-few, 0) / (manyAtOnce - fewAtOnce) / all
	out.Headroom = max(few-fewAtOnce*all*out.Held-rest, 0) / rest
	return out
}
