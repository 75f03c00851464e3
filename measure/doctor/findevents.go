package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
)

const FindingEvents = "events"

var eventsKind = &kind{
	name: FindingEvents,
	does: "records many Events",
	from: "Events that cost 5 s of CPU an hour, by the measured model: 4 a second; on each machine where there are 20",
	find: findEvents, apart: true,
	asks: func(w *whatIfCase) []batch { return w.d.writeBatch(w.u.resource, float64(w.u.writes.count)) },
}

// findEvents finds Events that cost much.
func findEvents(u subject) (Finding, bool) {
	if u.writes == nil || thresholds() == nil || !isEvents(u.resource) {
		return Finding{}, false
	}
	rate, _, where := u.rates(u.writes)
	if thresholds().Server.Of(u.d.writeWork(u.resource, rate)).CPUSeconds < wasteful {
		return Finding{}, false
	}
	return Finding{
		Count: u.writes.count, Seconds: u.writes.latency.Seconds(),
		Text: fmt.Sprintf("records up to %s Events a second%s: %s writes%s", humanize.Number(rate/3600), where,
			humanize.Count(u.writes.count), u.d.sentTo(u.resource)),
		Remedy: "record an Event where a state changes, not each time it is looked at; client-go's EventBroadcaster counts " +
			"repetitions in one Event, and drops what is more than one in 5 minutes of an object: use one broadcaster for all",
	}, true
}

// isEvents reports whether a resource is that of Events, in either of its groups.
func isEvents(resource string) bool {
	return resource == "events" || resource == "events.events.k8s.io"
}
