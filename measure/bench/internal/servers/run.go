package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// startTimeout limits how long a server may take to start, load all pods and answer.
const startTimeout = 5 * time.Minute

// trialTimeout limits the time of one run of a scenario on one server, in addition to the time that
// the options ask for.
const trialTimeout = 20 * time.Minute

// errPassedOn is wrapped by the error of a run in which the proxy did not answer the requests
// itself.
var errPassedOn = errors.New("the proxy has forwarded requests to its upstream")

// ErrNoWrites is returned if a scenario must change pods but the options do not allow it.
var ErrNoWrites = errors.New("this changes pods, which --writes or --etcd must allow")

// trial is one run of one scenario on one server, target.
type trial struct {
	*target
	direct *target // kube-apiserver, even if target is the proxy
	Options
	pods   *serverPods
	writer writer
	// writesThrough says that the writer writes through kube-apiserver, which uses CPU time for that.
	writesThrough bool

	requests atomic.Int64 // LISTs and WATCHes that clients of a Replay have sent
	told     atomic.Int64 // the number of events for the trace
}

func (t *trial) say(line string) { fmt.Fprintf(t.Progress, "  %s: %s\n", t.name, line) }

// Bench is a kube-apiserver, or an embedded server that replaces it, ready to be measured. It is
// not safe for concurrent use.
type Bench struct {
	o         Options
	direct    *target // kube-apiserver
	pods      *serverPods
	writer    writer
	close     func()
	files     *kubeconfig
	apiserver bool // direct is not the embedded server, so it is measured too
}

// Open reads the pods of the server. If the options name no server, it first starts an embedded
// one. The caller must call Close.
func Open(ctx context.Context, o Options) (*Bench, error) {
	b := &Bench{o: o, close: func() {}, apiserver: o.Config != nil}
	if err := figures.Attempt(func() { b.open(ctx) }); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Bench) open(ctx context.Context) {
	name := nameAPIServer
	if !b.apiserver {
		name = nameEmbedded
		b.startEmbedded(ctx)
	}
	b.files = figures.Must(newKubeconfig(b.o.Config))
	b.direct = figures.Must(newTarget(ctx, name, b.o.Config))
	b.pods = readServerPods(ctx, b.direct.control, b.o.EtcdURL != "")
	if b.o.EtcdURL != "" {
		b.writer = &etcdWriter{url: b.o.EtcdURL, pods: b.pods, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxWriters}}}
	} else if b.o.Writes || !b.apiserver {
		b.writer = &patcher{client: b.direct.control, pods: b.pods}
	}
}

// startEmbedded starts the embedded server that replaces kube-apiserver.
func (b *Bench) startEmbedded(ctx context.Context) {
	p, err := process.StartServer(ctx, process.ServerSpec{
		Pods: b.o.Pods, Population: b.o.Population, Seed: 1, TLS: true, WatchBuffer: b.o.watchBuffer, Whole: b.o.whole,
	})
	figures.Check(err, "start the embedded server")
	// Ignore the error of Close: the server has no data to lose.
	b.o.Config, b.close = p.Config(), func() { _ = p.Close() }
}

// Close stops everything that Open has started.
func (b *Bench) Close() {
	if b.direct != nil {
		b.direct.close()
	}
	if e, ok := b.writer.(*etcdWriter); ok {
		e.http.CloseIdleConnections()
	}
	if b.files != nil {
		b.files.remove()
	}
	b.close()
}

// Pods returns the number of pods that the server had when Open read them.
func (b *Bench) Pods() int { return len(b.pods.keys) }

// Allows returns ErrNoWrites if the scenario changes pods and the options do not allow it.
// Otherwise it returns nil.
func (b *Bench) Allows(s Scenario) error {
	if s.Writes && b.writer == nil {
		return ErrNoWrites
	}
	return nil
}

// Run runs a scenario on the proxy and on kube-apiserver in turn, several times. Without a
// kube-apiserver it runs the scenario only on the proxy. It returns the first error.
func (b *Bench) Run(ctx context.Context, s Scenario) (Result, error) {
	if err := b.Allows(s); err != nil {
		return Result{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	res := Result{Name: s.Name, Runs: cmp.Or(b.o.Runs, s.Runs)}
	sides := []string{nameWeir}
	if b.apiserver {
		sides = append(sides, nameAPIServer)
	}
	runs := map[string][]Figures{}
	for i := range res.Runs {
		for _, side := range sides {
			f, err := b.measure(ctx, s, side)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %s: %w", s.Name, side, err)
			}
			if f != nil {
				runs[side] = append(runs[side], f)
				fmt.Fprintf(b.o.Progress, "%s %d/%d  %-14s  %s\n", s.Name, i+1, res.Runs, side, figures.Headline(f, s.figures))
			}
		}
	}
	res.Weir, res.APIServer = figures.Medians(runs[nameWeir]), figures.Medians(runs[nameAPIServer])
	res.compare(s.figures)
	return res, nil
}

// measure runs a scenario once, on a new proxy or on kube-apiserver. It returns nil if the scenario
// does not measure that server.
func (b *Bench) measure(ctx context.Context, s Scenario, side string) (f Figures, err error) {
	limit := trialTimeout + b.o.Duration + time.Duration(len(updateRates))*b.o.Patience
	on := func(of *target) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return figures.Attempt(func() { f = s.measure(ctx, b.newTrial(of)) })
	}
	if side != nameWeir {
		err = on(b.direct)
	} else {
		err = b.withProxy(ctx, func(ours *target) error {
			if err := on(ours); err != nil {
				return err
			}
			return ours.answeredItself(ctx, b.o.Progress)
		})
	}
	return f, err
}

// withProxy starts a proxy. When the proxy has cached the pods, withProxy calls the function use,
// and then stops the proxy.
func (b *Bench) withProxy(ctx context.Context, use func(*target) error) (err error) {
	var more []string
	if !b.apiserver {
		more = []string{"--authentication-skip-lookup"} // the embedded server publishes no CAs
	}
	p, err := startProxy(ctx, b.o.Proxy, b.files, more...)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := p.stop(); err == nil {
			err = stopErr
		}
	}()
	ours, err := newTarget(ctx, nameWeir, p.config)
	if err != nil {
		return err
	}
	defer ours.close()
	ours.gauge = p.gauge(ours)
	if err = ours.waitReady(ctx); err == nil {
		err = use(ours)
	}
	return p.failure(err)
}

// fewPassed is the tolerated share of requests that the proxy passes on to its upstream. The proxy
// passes a request on if it cannot authorize the caller in time. With a larger share, the figures
// would describe the upstream.
const fewPassed = 0.01

// answeredItself checks that a new proxy has answered requests from its cache. Otherwise the error
// wraps errPassedOn.
func (t *target) answeredItself(ctx context.Context, progress io.Writer) error {
	m, err := t.metrics(ctx, upstreamMetric, servedMetric)
	if err != nil {
		return err
	}
	served, passed := 0.0, m[ofCallers]
	for series, value := range m {
		if strings.HasPrefix(series, servedMetric) {
			served += value
		}
	}
	if passed > fewPassed*(served+passed) {
		return fmt.Errorf("%w, %.0f of %.0f: the figures would not be its own", errPassedOn, passed, served+passed)
	}
	if passed > 0 {
		fmt.Fprintf(progress, "  weir: %.0f of %.0f requests were forwarded to the upstream\n", passed, served+passed)
	}
	return nil
}

func (b *Bench) newTrial(of *target) *trial {
	_, through := b.writer.(*patcher)
	return &trial{target: of, direct: b.direct, Options: b.o, pods: b.pods, writer: b.writer, writesThrough: through}
}

// waitReady waits until the server reports that it is ready.
func (t *target) waitReady(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = t.control.discard(ctx, request{path: "/readyz", accept: "text/plain"})
		if _, answered := errors.AsType[*answerError](last); answered {
			return false, nil
		}
		return last == nil, last
	})
	if err != nil {
		return fmt.Errorf("%s did not become ready in %s: %w", t.name, startTimeout, errors.Join(err, last))
	}
	return nil
}

// clone returns a copy of cfg for another server, which accepts the same credentials.
func clone(cfg *rest.Config, host string, ca []byte) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Host, out.APIPath = host, ""
	out.TLSClientConfig.CAData, out.TLSClientConfig.CAFile = ca, ""
	out.TLSClientConfig.Insecure, out.TLSClientConfig.ServerName = false, ""
	return out
}
