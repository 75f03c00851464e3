package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const FindingSlow = "slow"

// slowKind has no line to write, because the clients' handlers have to change.
var slowKind = &kind{
	name: FindingSlow, incident: "initial-events",
	metricsDo: "WATCHes are closed because their clients read too slowly", metricsFrom: "one",
	ofResource: findSlow,
}

// findSlow finds WATCHes that the server closed because their clients did not read them.
func findSlow(r *evidence.ResourceMetrics, _ float64) (Finding, bool) {
	return Finding{
		Count: int64(r.SlowWatches), Objects: int64(r.SlowWatches * r.Objects),
		Text: fmt.Sprintf("%s WATCHes of %s were closed because their clients read too slowly; each of them most likely LISTs again",
			humanize.Rounded(r.SlowWatches), r.Name),
		Remedy: "clients that read while their handlers work, and less at once",
	}, r.SlowWatches >= 1
}
