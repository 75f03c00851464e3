package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingWaiting = "waiting"

	waitedAverage = 0.1 // seconds
	waitedCount   = 10  // requests in a minute
)

var waitingKind = &kind{
	name: FindingWaiting, incident: "thundering-restart",
	metricsDo: "requests wait for seats of a priority level", metricsFrom: "10 that wait for 0.1 s on average",
	ofLevel: findWaiting,
}

// findWaiting finds requests that waited for seats.
func findWaiting(l *evidence.LevelMetrics, seconds float64) (Finding, bool) {
	return Finding{
		Count: int64(l.Waited), Seconds: l.WaitSeconds,
		Text: fmt.Sprintf("%s requests of priority level %s waited for seats, %.2f s on average; %s of %s seats are in use",
			humanize.Rounded(l.Waited), l.Name, l.WaitSeconds/l.Waited, humanize.Rounded(l.Seats), humanize.Rounded(l.Limit)),
		Remedy: "fewer and smaller LISTs in this level: see the findings above",
	}, l.Waited >= perMinute(waitedCount, seconds) && l.WaitSeconds >= waitedAverage*l.Waited
}
