package doctor

import (
	"strings"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/audit"
	"github.com/weirproject/weir/internal/cost"
)

const (
	// wasteful is the CPU time of the API server, in seconds an hour, from which on GETs and writes
	// are a finding. The measured model says what they cost: four requests a second, or fewer that
	// are sent to many WATCHes.
	wasteful = 5
	// Writes that are 100 times less often to one object are a finding where they cost more.
	hotPerHour, oftenPerHour = 600, 60
	wastefulOften            = 360

	// Rates are of the busiest hour, or of all of a log that is shorter, but for some minutes.
	shortestRate = 10 * time.Minute
)

// thresholds returns the model that was measured, or nil.
var thresholds = sync.OnceValue(func() *cost.Model {
	m, err := cost.Load()
	if err != nil {
		return nil
	}
	return m
})

// acts are GETs or writes of objects of one resource by one client.
type acts struct {
	hourly
	count   int64
	latency time.Duration
	objects distinct
}

// add counts a request about an object.
func (a *acts) add(e *audit.Event) {
	a.hourly.add(e.Staged)
	a.count++
	a.latency += e.Latency()
	var space [2*maxName + 1]byte
	a.objects.add(appendObject(space[:0], e.Object))
}

// acted counts a request if it is a GET or a write of an object, or records an Event. A request
// that names no object, such as a question about a right, has none to be held in a cache or
// compared.
func (u *usage) acted(e *audit.Event, v verb) {
	failed := e.Code >= 400 && e.Code != 404 && e.Code != 409
	if failed || len(e.Object.Resource) == 0 || len(e.Object.Name) == 0 && !isEvents(u.resource) {
		return
	}
	to := &u.writes
	switch v {
	case verbGet:
		to = &u.gets
	case verbCreate, verbUpdate, verbPatch, verbDelete:
	default:
		return
	}
	if !ofObject(e.Object.Subresource) {
		return
	}
	if *to == nil {
		*to = &acts{}
	}
	(*to).add(e)
}

// appendObject appends the namespace and the name of an object.
func appendObject(dst []byte, o audit.Object) []byte {
	dst = append(dst, o.Namespace[:min(len(o.Namespace), maxName)]...)
	return append(append(dst, '/'), o.Name[:min(len(o.Name), maxName)]...)
}

// ofObject reports whether a request for a subresource reads or writes the object, and not what it
// runs or who may use it.
func ofObject(subresource []byte) bool {
	switch string(subresource) {
	case "exec", "attach", "portforward", "proxy", "log", "token":
		return false
	}
	return true
}

// perHour returns the rate of what happened so often in the busiest hour.
func (d *Doctor) perHour(busiest int64) float64 {
	span := time.Duration(d.last-d.first) * time.Microsecond
	return float64(busiest) / min(max(span, shortestRate), time.Hour).Hours()
}

// rates returns how often an hour a client does something, and how often it does so with one
// object. Where the client is on many machines, as agents are, and not one that is rolled out now
// and then, the rate is that of each, and where says so.
func (s subject) rates(a *acts) (rate, object float64, where string) {
	rate = s.d.perHour(a.busiest)
	object = rate / float64(max(1, a.objects.count()))
	if n := s.c.places.count(); n >= nodePlaces {
		rate, where = rate/float64(n), " on each machine"
	}
	return rate, object, where
}

// isWasteful reports whether writes in an hour, ofObject of them of one object, cost too much.
func isWasteful(ofObject float64, all cost.Cost) bool {
	return ofObject >= hotPerHour && all.CPUSeconds >= wasteful || ofObject >= oftenPerHour && all.CPUSeconds >= wastefulOften
}

// receivers estimates to how many WATCHes a write of a resource is sent: those that are open on
// average, each by the share of the objects that it selects.
func (d *Doctor) receivers(resource string) float64 {
	resource, _, _ = strings.Cut(resource, "/")
	k, span := d.census[resource], float64(d.last-d.first)/1e6
	if k == nil || span <= 0 {
		return 0
	}
	sum := k.watched[selectAll] + selectedShare*k.watched[selectBySelector] + k.watched[selectNamespace]*d.census.perNamespace(resource)
	if nodes := d.size("nodes").Objects; nodes > 0 {
		sum += k.watched[selectNode] / float64(nodes)
	}
	return sum / span
}

// writeWork is writes of a resource, and the events that they are sent as.
func (d *Doctor) writeWork(resource string, n float64) cost.Work {
	return cost.Work{Requests: n, Events: n * d.receivers(resource), EventBytes: d.size(resource).Bytes}
}

// getWork is GETs of an object of a resource.
func (d *Doctor) getWork(c Client, resource string, n float64) cost.Work {
	sent := d.size(resource).Bytes
	return cost.Work{Requests: n, Sent: sent, Encoding: encoding(c, resource, sent)}
}
