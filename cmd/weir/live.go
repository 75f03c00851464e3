package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	// defaultLive is how long doctor examines a server by default.
	defaultLive = time.Minute
	// minLive is the shortest period in which counts are meaningful.
	minLive = time.Second
	// metricsTimeout limits the time of one request for /metrics. A large cluster answers tens of MB.
	metricsTimeout = 30 * time.Second
	// sameServerTries limits the number of requests for /metrics until the server that answered first
	// answers again. A load balancer may distribute requests over several servers.
	sameServerTries = 10
)

// metricsReader reads /metrics of an API server.
type metricsReader struct {
	client *http.Client
	url    string
}

func newMetricsReader(cfg *rest.Config) (*metricsReader, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = cmp.Or(cfg.Timeout, metricsTimeout)
	cfg = command.Impatient(cfg)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	return &metricsReader{client, base.JoinPath("metrics").String()}, nil
}

func (m *metricsReader) close() { m.client.CloseIdleConnections() }

// read requests the metrics and returns them as a sample.
func (m *metricsReader) read(ctx context.Context) (*evidence.Sample, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, fmt.Errorf("GET %s: %w", m.url, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("GET %s: %s: a ClusterRole with nonResourceURLs [/metrics] and verbs [get] is required", m.url, resp.Status)
	default:
		return nil, fmt.Errorf("GET %s: %s", m.url, resp.Status)
	}
	sample, err := evidence.ReadMetrics(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", m.url, err)
	}
	return sample, nil
}

// watch reads the metrics at the start and at the end of a period, and returns the difference. It
// shows the progress on out.
func (m *metricsReader) watch(ctx context.Context, period time.Duration, out io.Writer) (*evidence.MetricsReport, error) {
	before, err := m.read(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := wait(ctx, period, newProgress(out, m.url, int(period.Seconds()))); err != nil {
		return nil, err
	}
	for range sameServerTries {
		after, err := m.read(ctx)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		report, err := evidence.CompareMetrics(before, after, now.Sub(began).Seconds(), float64(now.UnixNano())/1e9)
		if err == nil {
			return report, nil
		}
		m.close() // a new connection may lead to the first server
	}
	return nil, fmt.Errorf("%s: %w; name one server with --server", m.url, evidence.ErrAnotherServer)
}

// wait waits for a period, or until ctx ends, and shows the progress.
func wait(ctx context.Context, period time.Duration, p *progress) error {
	defer p.end()
	p.passed(0, period)
	end := time.After(period)
	tick := time.Tick(progressEvery)
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return errInterrupted
		case <-end:
			return nil
		case <-tick:
			p.passed(time.Since(began), period)
		}
	}
}

// live examines the server that the flags select for the period of --for, and returns a report.
func (f *doctorFlags) live(ctx context.Context, progress io.Writer) (*doctor.Live, error) {
	m, err := f.reader()
	if err != nil {
		return nil, err
	}
	defer m.close()
	report, err := m.watch(ctx, f.period, progress)
	if err != nil {
		return nil, err
	}
	return doctor.NewLive(report), nil
}

// sizesOf asks the server that the flags select for the number and the mean size of each resource's
// objects. It also asks for the server's resident memory. It sets these values in o, except those
// that --objects and --object-bytes have set.
func (f *doctorFlags) sizesOf(ctx context.Context, o *doctor.Options) error {
	m, err := f.reader()
	if err != nil {
		return err
	}
	defer m.close()
	sample, err := m.read(ctx)
	if err != nil {
		return err
	}
	o.Resident = int64(sample.RSSBytes)
	o.ObjectsAsked, o.BytesAsked = map[string]bool{}, map[string]bool{}
	for name, r := range sample.Resources {
		if r.Objects <= 0 {
			continue
		}
		if _, told := o.Objects[name]; !told {
			o.Objects[name], o.ObjectsAsked[name] = min(int64(r.Objects), maxObjects), true
		}
		if _, told := o.Bytes[name]; !told && r.Bytes >= r.Objects {
			o.Bytes[name], o.BytesAsked[name] = min(int64(r.Bytes/r.Objects), maxObjectBytes), true
		}
	}
	return nil
}

func (f *doctorFlags) reader() (*metricsReader, error) {
	cfg, err := f.RestConfig()
	if err != nil {
		return nil, err
	}
	return newMetricsReader(cfg)
}

// checkLive returns a usage error if a flag has no effect when doctor examines a running server.
func (f *doctorFlags) checkLive() error {
	if len(f.objects)+len(f.bytes) > 0 {
		return command.Usagef("--objects and --object-bytes apply to audit logs; a running server reports these numbers")
	}
	if f.period < minLive {
		return command.Usagef("--for %v: want %v or more", f.period, minLive)
	}
	return nil
}
