package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
)

const FindingWrites = "writes"

var writesKind = &kind{
	name: FindingWrites,
	does: "writes the same objects again and again, which every WATCH of the resource is sent",
	from: "10 writes a minute of each object that cost 5 s of CPU an hour, or 1 a minute that cost 6 minutes, by the measured model; of each machine where there are 20",
	find: findWrites, apart: true,
	asks:     func(w *whatIfCase) []batch { return w.d.writeBatch(w.u.resource, float64(w.u.writes.count)) },
	remedies: []remedy{eachMinute},
}

// findWrites finds writes of the same objects that cost much.
func findWrites(u subject) (Finding, bool) {
	if u.writes == nil || thresholds() == nil || isEvents(u.resource) {
		return Finding{}, false
	}
	rate, object, _ := u.rates(u.writes)
	if !isWasteful(object, thresholds().Server.Of(u.d.writeWork(u.resource, rate))) {
		return Finding{}, false
	}
	return Finding{
		Count: u.writes.count, Seconds: u.writes.latency.Seconds(),
		Text: fmt.Sprintf("writes %s again and again: %s writes of about %s objects, each of them up to %s times an hour%s",
			u.resource, humanize.Count(u.writes.count), humanize.Count(int64(u.writes.objects.count())), humanize.Number(object), u.d.sentTo(u.resource)),
		Remedy: "compare before the write, and write only what has changed; keep times and counters that always change out of the object; " +
			"for a lock use a Lease, which few clients WATCH",
	}, true
}

// sentTo describes how many WATCHes a write is sent to.
func (d *Doctor) sentTo(resource string) string {
	return fmt.Sprintf(", sent to %s WATCHes each", humanize.Number(d.receivers(resource)))
}

// writeBatch returns n writes of a resource.
func (d *Doctor) writeBatch(resource string, n float64) []batch {
	return []batch{{size: d.size(resource), work: d.writeWork(resource, n)}}
}

// eachMinute predicts one write a minute of each object.
func eachMinute(w *whatIfCase) (Prediction, bool) {
	n := float64(w.u.writes.objects.count()) * w.d.since(w.d.first) / 60
	return w.predict(RemedyEachMinute, w.d.writeBatch(w.u.resource, n)), n < float64(w.u.writes.count)
}
