package doctor

import (
	"strings"
	"time"

	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	// wasteful is a CPU time of the API server, in seconds per hour. GETs are a finding only if they
	// cost at least this time. By the measured model of package cost, four requests a second cost that
	// much. If the server sends each write to many WATCHes, fewer writes cost as much.
	wasteful = 5
	// Writes are a finding only in one of two cases. In the first case, an object receives at least
	// hotPerHour writes an hour, and all writes of an hour cost at least wasteful seconds. In the
	// second case, an object receives at least oftenPerHour writes an hour, and all writes of an hour
	// cost at least wastefulOften seconds.
	hotPerHour, oftenPerHour = 600, 60
	wastefulOften            = 360

	// shortestRate is the shortest time over which perHour computes a rate. A shorter log counts as if
	// it had this length, so that a few requests in it do not give a high rate.
	shortestRate = 10 * time.Minute
)

// acts counts a client's GETs of objects of one resource, or its writes of such objects.
type acts struct {
	hourly
	count   int64
	latency time.Duration
	objects distinct
}

// add counts a request about an object. object is the hash of the object's name.
func (a *acts) add(e *evidence.Event, object uint64) {
	a.hourly.add(e.Staged)
	a.count++
	a.latency += e.Latency()
	a.objects.addHash(object)
}

// acted counts a request if it is a GET or a write of an object, or records an Event. It ignores
// failed requests, except those that fail with 404 or 409. It also ignores requests that name no
// object, such as access reviews, because no client can cache or compare their results. Requests
// that record an Event count even if they name no object.
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

// ofObject reports whether requests for a subresource read or write the object itself.
func ofObject(subresource []byte) bool {
	switch string(subresource) {
	case "exec", "attach", "portforward", "proxy", "log", "token":
		return false
	}
	return true
}

// perHour returns a rate per hour. busiest is the number of requests in the busiest hour of the
// log.
func (d *Doctor) perHour(busiest int64) float64 {
	span := time.Duration(d.last-d.first) * time.Microsecond
	return float64(busiest) / min(max(span, shortestRate), time.Hour).Hours()
}

// rates returns the hourly rate of a client's requests, and the average rate per object. If the
// client runs on many machines, as agents do, rate is the rate per machine, and where is a text
// that says so. Otherwise where is empty.
func (s subject) rates(a *acts) (rate, object float64, where string) {
	rate = s.d.perHour(a.busiest)
	object = rate / float64(max(1, a.objects.count()))
	if n := s.c.places.count(); n >= nodePlaces {
		rate, where = rate/float64(n), " on each machine"
	}
	return rate, object, where
}

// areWasteful reports whether the writes of an hour cost too much, by the measured model. ofObject
// is the number of writes of one object, and all is the number of writes of all objects.
func (d *Doctor) areWasteful(resource string, ofObject, all float64) bool {
	cost := cost.Load().Server.Of(d.writeWork(resource, all)).CPUSeconds
	return ofObject >= hotPerHour && cost >= wasteful || ofObject >= oftenPerHour && cost >= wastefulOften
}

// receivers estimates how many WATCHes receive a write of a resource. It sums the average number of
// open WATCHes, each weighted by the share of the objects that the WATCH selects.
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

// writeWork returns the work of n writes of a resource and of the events that they cause.
func (d *Doctor) writeWork(resource string, n float64) cost.Work {
	return cost.Work{Requests: n, Events: n * d.receivers(resource), EventBytes: d.size(resource).Bytes}
}

// getWork returns the work of n GETs of one object of a resource.
func (d *Doctor) getWork(c Client, resource string, n float64) cost.Work {
	sent := d.size(resource).Bytes
	return cost.Work{Requests: n, Sent: sent, Encoding: encoding(c, resource, sent)}
}
