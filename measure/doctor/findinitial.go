package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingInitial = "initial"

	initialTimes = 10 // that all objects are sent in a minute
)

var initialKind = &kind{
	name: FindingInitial, incident: "initial-events",
	metricsDo: "WATCHes begin with all objects, again and again", metricsFrom: "ten times all objects, 10,000 together",
	ofResource: findInitial, change: relistKind.change,
}

// findInitial finds WATCHes that start with all objects, again and again.
func findInitial(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	if r.Objects < 1 {
		return Finding{}, false
	}
	return Finding{
		Count: int64(r.InitialEvents / r.Objects), Objects: int64(r.InitialEvents),
		Text: fmt.Sprintf("WATCHes of %s began with %s objects, of %s that there are: clients restart, or are closed before they are through",
			r.Name, humanize.Rounded(r.InitialEvents), humanize.Rounded(r.Objects)),
		Remedy: "clients that resume from their last resourceVersion, with bookmarks",
	}, r.InitialEvents >= max(perMinute(initialTimes, seconds)*r.Objects, perMinute(fullObjects, seconds))
}
