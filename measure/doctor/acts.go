package doctor

import (
	"strings"
	"time"

	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	// wasteful is the CPU time of the API server, in seconds an hour, from which on GETs and writes
	// are a finding. By the measured model these are four requests a second, or fewer that are sent to
	// many WATCHes.
	wasteful = 5
	// Fewer writes to one object are a finding if they cost more.
	hotPerHour, oftenPerHour = 600, 60
	wastefulOften            = 360

	// Rates are those of the busiest hour, or of a shorter log. Of a log of few minutes they are
	// lower.
	shortestRate = 10 * time.Minute
)

// acts are GETs or writes of objects of one resource by one client.
type acts struct {
	hourly
	count   int64
	latency time.Duration
	objects distinct
}

// add counts a request about the object with a hash.
func (a *acts) add(e *evidence.Event, object uint64) {
	a.hourly.add(e.Staged)
	a.count++
	a.latency += e.Latency()
	a.objects.addHash(object)
}

// acted counts a request if it is a GET or a write of an object, or records an Event. A request
// that names no object, such as an access review, cannot be cached or compared.
func (u *usage) acted(e *evidence.Event, v verb, object uint64) {
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
	(*to).add(e, object)
}

// ofObject reports whether a request for a subresource reads or writes the object itself.
func ofObject(subresource []byte) bool {
	switch string(subresource) {
	case "exec", "attach", "portforward", "proxy", "log", "token":
		return false
	}
	return true
}

// perHour returns the hourly rate of requests, given their number in the busiest hour.
func (d *Doctor) perHour(busiest int64) float64 {
	span := time.Duration(d.last-d.first) * time.Microsecond
	return float64(busiest) / min(max(span, shortestRate), time.Hour).Hours()
}

// rates returns the hourly rate of a client's requests, and the rate for one object. If the client
// runs on many machines, as agents do, the rate is that of each machine, and where says so.
func (s subject) rates(a *acts) (rate, object float64, where string) {
	rate = s.d.perHour(a.busiest)
	object = rate / float64(max(1, a.objects.count()))
	if n := s.c.places.count(); n >= nodePlaces {
		rate, where = rate/float64(n), " on each machine"
	}
	return rate, object, where
}

// areWasteful reports whether the writes of an hour cost too much, by the measured model. ofObject
// of them are of one object.
func (d *Doctor) areWasteful(resource string, ofObject, all float64) bool {
	cost := cost.Load().Server.Of(d.writeWork(resource, all)).CPUSeconds
	return ofObject >= hotPerHour && cost >= wasteful || ofObject >= oftenPerHour && cost >= wastefulOften
}

// receivers estimates how many WATCHes receive a write of a resource: those that are open on
// average, each weighted by the share of the objects that it selects.
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

// writeWork is n writes of a resource and the events that they cause.
func (d *Doctor) writeWork(resource string, n float64) cost.Work {
	return cost.Work{Requests: n, Events: n * d.receivers(resource), EventBytes: d.size(resource).Bytes}
}

// getWork is n GETs of an object of a resource.
func (d *Doctor) getWork(c Client, resource string, n float64) cost.Work {
	sent := d.size(resource).Bytes
	return cost.Work{Requests: n, Sent: sent, Encoding: encoding(c, resource, sent)}
}
