package doctor

import (
	"fmt"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/cost"
)

const (
	FindingGets = "gets"

	// getsWatched is the largest number of objects for which doctor suggests one WATCH of each object.
	getsWatched = 100
)

var getsKind = &kind{
	name: FindingGets,
	does: "GETs the same objects repeatedly",
	from: "1 GET per minute of each object, which cost 5 s of CPU per hour by the measured model: 4 per second; from 20 machines on, per machine",
	find: findGets, apart: true,
	change:  func(a api, _ *usage) string { return a.lister("Get(name)") + " // instead of a GET" },
	kubectl: watchOnce,
	asks: func(w *whatIfCase) []batch {
		return []batch{{c: w.c.name, size: w.size, work: w.d.getWork(w.c.name, w.u.resource, float64(w.u.gets.count))}}
	},
	remedies: []remedy{watchedOne, newInformer},
}

// findGets finds costly GETs that a client sends for the same objects again and again.
func findGets(u subject) (Finding, bool) {
	_, sub, _ := strings.Cut(u.resource, "/")
	if u.gets == nil || sub != "" && sub != "status" || strings.HasSuffix(u.resource, unwatchable) {
		return Finding{}, false
	}
	rate, object, where := u.rates(u.gets)
	if object < oftenPerHour || cost.Load().Server.Of(u.d.getWork(u.c.name, u.resource, rate)).CPUSeconds < wasteful {
		return Finding{}, false
	}
	return Finding{
		Count: u.gets.count, Seconds: u.gets.latency.Seconds(),
		Text: fmt.Sprintf("GETs %s up to %s times per second%s: %s GETs of about %s objects", u.resource,
			humanize.Number(rate/3600), where, humanize.Count(u.gets.count), humanize.Count(int64(u.gets.objects.count()))),
		Remedy: "run an informer and read its cache; for one object, WATCH with fieldSelector=metadata.name=NAME",
	}, true
}

// watchedOne predicts the cost if each machine WATCHed each of the objects. It returns false if
// there are more than getsWatched objects.
func watchedOne(w *whatIfCase) (Prediction, bool) {
	objects := float64(w.u.gets.objects.count())
	b := batch{c: w.c.name, size: w.size, work: w.d.getWork(w.c.name, w.u.resource, w.machines*objects)}.initial()
	b.work.Connections, b.work.EventBytes = w.machines, w.size.Bytes
	b.work.Events = w.machines * w.d.census.writes(w.size.Resource) * min(1, objects/float64(max(1, w.d.census.objects(w.size.Resource))))
	return w.predict(RemedyWatchOne, []batch{b}), objects <= getsWatched
}

const FindingWrites = "writes"

var writesKind = &kind{
	name: FindingWrites,
	does: "writes the same objects repeatedly, which every WATCH of the resource receives",
	from: "10 writes per minute of each object, which cost 5 s of CPU per hour by the measured model, or 1 per minute, which cost 6 minutes; from 20 machines on, per machine",
	find: findWrites, apart: true,
	asks:     func(w *whatIfCase) []batch { return w.d.writeBatch(w.u.resource, float64(w.u.writes.count)) },
	remedies: []remedy{eachMinute},
}

// findWrites finds costly writes that a client sends for the same objects again and again.
func findWrites(u subject) (Finding, bool) {
	if u.writes == nil || isEvents(u.resource) {
		return Finding{}, false
	}
	rate, object, _ := u.rates(u.writes)
	if !u.d.areWasteful(u.resource, object, rate) {
		return Finding{}, false
	}
	return Finding{
		Count: u.writes.count, Seconds: u.writes.latency.Seconds(),
		Text: fmt.Sprintf("writes %s repeatedly: %s writes of about %s objects, each of them up to %s times an hour%s",
			u.resource, humanize.Count(u.writes.count), humanize.Count(int64(u.writes.objects.count())), humanize.Number(object), u.d.sentTo(u.resource)),
		Remedy: "compare before each write, and write only changes; do not store times and counters that always change in the object; " +
			"for a lock, use a Lease, which few clients WATCH",
	}, true
}

// sentTo returns a text that says to how many WATCHes the server sends each write.
func (d *Doctor) sentTo(resource string) string {
	return fmt.Sprintf(", each sent to %s WATCHes", humanize.Number(d.receivers(resource)))
}

// writeBatch returns a batch of n writes of a resource.
func (d *Doctor) writeBatch(resource string, n float64) []batch {
	return []batch{{size: d.size(resource), work: d.writeWork(resource, n)}}
}

// eachMinute predicts the cost of one write per minute of each object. It returns false if the
// client does not send more writes than that.
func eachMinute(w *whatIfCase) (Prediction, bool) {
	n := float64(w.u.writes.objects.count()) * w.d.since(w.d.first) / 60
	return w.predict(RemedyEachMinute, w.d.writeBatch(w.u.resource, n)), n < float64(w.u.writes.count)
}

const FindingEvents = "events"

var eventsKind = &kind{
	name: FindingEvents,
	does: "records many Events",
	from: "Events that cost 5 s of CPU per hour by the measured model: 4 per second; from 20 machines on, per machine",
	find: findEvents, apart: true,
	asks: func(w *whatIfCase) []batch { return w.d.writeBatch(w.u.resource, float64(w.u.writes.count)) },
}

// findEvents finds a client that records a costly number of Events.
func findEvents(u subject) (Finding, bool) {
	if u.writes == nil || !isEvents(u.resource) {
		return Finding{}, false
	}
	rate, _, where := u.rates(u.writes)
	if cost.Load().Server.Of(u.d.writeWork(u.resource, rate)).CPUSeconds < wasteful {
		return Finding{}, false
	}
	return Finding{
		Count: u.writes.count, Seconds: u.writes.latency.Seconds(),
		Text: fmt.Sprintf("records up to %s Events a second%s: %s writes%s", humanize.Number(rate/3600), where,
			humanize.Count(u.writes.count), u.d.sentTo(u.resource)),
		Remedy: "record an Event when a state changes, and not on each check; client-go's EventBroadcaster counts " +
			"repetitions in one Event, and drops more than one Event of an object in 5 minutes: use one broadcaster for all",
	}, true
}

// isEvents reports whether a resource is Events, in either of its groups.
func isEvents(resource string) bool {
	return resource == "events" || resource == "events.events.k8s.io"
}
