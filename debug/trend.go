package debug

import (
	"math"
	"sync"
	"time"
	"weak"

	"github.com/weirproject/weir/internal/core/delivery"
)

// A chart shows points of the last half hour.
const (
	pointEvery = 10 * time.Second
	maxPoints  = 180
	maxSeries  = 4
)

// series describes one of the charts of an informer, a proxy or a resource of a proxy.
type series struct {
	Name  string `json:"name"`
	Bytes bool   `json:"bytes,omitempty"`
	// Rate is true if the points are the growth of a total per second.
	Rate   bool      `json:"-"`
	Points []float32 `json:"points"` // the newest last, rounded to 0.2 %
}

var (
	informerSeries = [maxSeries]series{{Name: "events/s", Rate: true}, {Name: "memory", Bytes: true}, {Name: "lag"}, {Name: "received/s", Bytes: true, Rate: true}}
	proxySeries    = [maxSeries]series{{Name: "connections"}, {Name: "watches"}, {Name: "forwarded/s", Rate: true}, {Name: "received/s", Bytes: true, Rate: true}}
	resourceSeries = [maxSeries]series{{Name: "events/s", Rate: true}, {Name: "memory", Bytes: true}, {Name: "watchers"}, {Name: "lag"}}
)

// trend is the past of an informer, a proxy or a resource: about 1.5 KB.
type trend struct {
	last   [maxSeries]float64 // the newest values, of which Rate series are totals
	n      int                // the number of points so far; point i is at i % maxPoints
	points [maxSeries][maxPoints]point
}

// point is a value that is not negative, as the upper half of a float32 without its sign.
type point uint16

func pointOf(v float64) point { return point((math.Float32bits(float32(max(v, 0))) + 1<<14) >> 15) }

func (p point) value() float32 { return math.Float32frombits(uint32(p) << 15) }

// add adds a point of each series. after is the time since the previous one. The first call only
// stores the totals.
func (t *trend) add(of *[maxSeries]series, values [maxSeries]float64, after time.Duration) {
	for i, v := range values {
		point := v
		if of[i].Rate {
			point = (v - t.last[i]) / max(after.Seconds(), 0.001)
		}
		if t.last[i] = v; after > 0 {
			t.points[i][t.n%maxPoints] = pointOf(point)
		}
	}
	if after > 0 {
		t.n++
	}
}

// charts returns a copy of the points.
func (t *trend) charts(of [maxSeries]series) []series {
	for i := range of {
		of[i].Points = make([]float32, 0, min(t.n, maxPoints))
		for at := max(t.n-maxPoints, 0); at < t.n; at++ {
			of[i].Points = append(of[i].Points, t.points[i][at%maxPoints].value())
		}
	}
	return of[:]
}

// trends records the past of everything that runs in the process, for one Handler. Its memory is
// bounded by one trend for each running informer and each resource of a proxy. It is safe for
// concurrent use.
type trends struct {
	mu   sync.Mutex
	byID map[string]*trend
	at   time.Time // of the newest points

	// stacksMu is not mu, because it is held while stacks are recorded: for 50 ms if there are 20,000
	// goroutines.
	stacksMu sync.Mutex
	stacks   func(*delivery.Registration) string // nil if not recorded within pointEvery
}

// newTrends returns trends that add a point every pointEvery until the caller drops them.
func newTrends() *trends {
	t := &trends{byID: map[string]*trend{}}
	again(weak.Make(t))
	return t
}

// again adds points after pointEvery, and so on, as long as the trends are in memory. Between
// points there is a timer but no goroutine.
func again(of weak.Pointer[trends]) {
	time.AfterFunc(pointEvery, func() {
		if t := of.Value(); t != nil {
			t.add(time.Now())
			again(of)
		}
	})
}

// add adds a point of everything that runs, and forgets what no longer runs.
func (t *trends) add(now time.Time) {
	r := t.report(now, func(string) bool { return false })
	t.mu.Lock()
	defer t.mu.Unlock()
	before, after := t.byID, now.Sub(t.at)
	t.byID, t.at = make(map[string]*trend, len(before)), now
	record := func(id string, of *[maxSeries]series, values ...float64) {
		one, since := before[id], max(after, time.Millisecond)
		if one == nil {
			one, since = &trend{}, 0
		}
		one.add(of, [maxSeries]float64(values), since)
		t.byID[id] = one
	}
	for i := range r.Informers {
		one := &r.Informers[i]
		record(one.ID, &informerSeries, float64(one.Events), float64(one.Memory), float64(one.Lag), float64(one.received))
	}
	for i := range r.Proxies {
		p := &r.Proxies[i]
		record(p.ID, &proxySeries, float64(p.Connections), float64(p.LongRunning), float64(p.Forwarded), float64(p.Received))
		for n := range p.Resources {
			one := &p.Resources[n]
			record(one.ID, &resourceSeries, float64(one.Events), float64(one.row.Memory), float64(one.Watchers), float64(one.Lag))
		}
	}
}

// charts returns the charts of something that runs. They are empty before the first point.
func (t *trends) charts(id string, of [maxSeries]series) []series {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byID[id]; one != nil {
		return one.charts(of)
	}
	return new(trend).charts(of)
}

// stack returns the stack of a handler's goroutine at some time during the last pointEvery.
func (t *trends) stack(r *delivery.Registration) string {
	t.stacksMu.Lock()
	defer t.stacksMu.Unlock()
	if t.stacks == nil {
		t.stacks = delivery.Stacks()
		time.AfterFunc(pointEvery, func() {
			t.stacksMu.Lock()
			defer t.stacksMu.Unlock()
			t.stacks = nil
		})
	}
	return t.stacks(r)
}
