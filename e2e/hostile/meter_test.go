package hostile

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// statOf returns the statistics of a process in /proc.
func statOf(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// rss returns the resident set size of a process, in bytes.
func rss(pid int) (int64, error) {
	stat, err := statOf(pid)
	return int64(stat.ResidentMemory()), err
}

// cpu returns the CPU time that a process has used.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := statOf(pid)
	check.NoError(t, err)
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// samplePeriod is the time between two measurements of the resident set size.
const samplePeriod = 50 * time.Millisecond

// sampler measures the resident set size of a process until stop.
type sampler struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	peak   int64 // valid after stop
}

func sample(ctx context.Context, pid int) *sampler {
	s := &sampler{}
	ctx, s.cancel = context.WithCancel(ctx)
	s.done.Go(func() {
		every(ctx, samplePeriod, func() {
			if n, err := rss(pid); err == nil {
				s.peak = max(s.peak, n)
			}
		})
	})
	return s
}

// stop ends the measurement, and returns the largest resident set size in bytes.
func (s *sampler) stop() int64 {
	s.cancel()
	s.done.Wait()
	return s.peak
}

// collection matches the line that the Go runtime prints after each garbage collection with
// gctrace=1. The submatch is the size of the live heap, in MiB.
var collection = regexp.MustCompile(`(?m)^gc \d+ @.*?\d+->\d+->(\d+) MB`)

// collections returns the size of the live heap after each garbage collection so far, in bytes.
func (p *weirProxy) collections(t *testing.T) (live []int64) {
	t.Helper()
	raw, err := os.ReadFile(p.log())
	check.NoError(t, err)
	for _, m := range collection.FindAllSubmatch(raw, -1) {
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		check.NoError(t, err)
		live = append(live, n<<20)
	}
	return live
}

// liveHeap returns the size of the live heap in bytes, measured by garbage collections after the
// call. It causes the collections by requests whose heads each make half a megabyte of garbage. It
// ignores the first two collections, because contents of a sync.Pool live that long. From the later
// collections it returns the smallest size, because memory that is allocated during a collection
// counts as live.
func (p *weirProxy) liveHeap(t *testing.T, ctx context.Context) int64 {
	t.Helper()
	const enough = 6
	ctx, cancel := context.WithCancel(ctx)
	a := &attackers{victim: &p.victim, from: politeAddress, notes: newNotes(), dialing: make(chan struct{}, 1)}
	defer a.end()
	defer cancel()
	before := len(p.collections(t))
	a.litter(ctx, token(t, known))
	var live []int64
	testenv.Eventually(t, ctx, "garbage was collected", func() bool {
		live = p.collections(t)[before:]
		return len(live) >= enough
	})
	return slices.Min(live[2:])
}

// litter sends requests with large heads, one after the other. It waits for each response.
func (a *attackers) litter(ctx context.Context, token string) {
	block := head("GET", "/livez", append(manyFields(headFields), bearer(token))...)
	a.each(ctx, 1, func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx)
		if err != nil {
			return
		}
		defer c.close()
		for {
			if _, err := c.request(block, true); err != nil {
				return
			}
			select {
			case <-c.answered:
			case <-c.ended:
				return
			}
		}
	})
}

// gauges are values of the proxy's metrics.
type gauges struct{ connections, goroutines, descriptors int }

// gauges reads the proxy's metrics. The values include the connection for this request.
func (p *weirProxy) gauges(t *testing.T, ctx context.Context) (gauges, error) {
	t.Helper()
	c := newClient(&p.victim, politeAddress, token(t, monitor))
	defer c.close()
	body, err := c.get(ctx, "/metrics")
	if err != nil {
		return gauges{}, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return gauges{}, err
	}
	value := func(name string) int {
		f := families[name]
		if f == nil || len(f.Metric) != 1 {
			t.Fatalf("the metrics have no single %s", name)
		}
		return int(f.Metric[0].GetGauge().GetValue())
	}
	return gauges{value("weir_proxy_connections"), value("go_goroutines"), value("process_open_fds")}, nil
}

// These are limits of how much the numbers of connections and goroutines of a proxy without clients
// may vary. They vary because the proxy opens and closes connections to its upstream.
const (
	connectionSlack = 4
	goroutineSlack  = 4 * connectionSlack
)

// rests reports whether the connections and goroutines exceed a baseline by at most the slack.
func (g gauges) rests(baseline gauges) bool {
	return g.connections <= baseline.connections+connectionSlack && g.goroutines <= baseline.goroutines+goroutineSlack
}
