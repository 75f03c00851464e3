package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingFull = "full"

	fullLists   = 10     // in a minute, with half of all objects or more in each
	fullObjects = 10_000 // that they return together
)

var fullKind = &kind{
	name: FindingFull, incident: "node-agents",
	metricsDo: "LISTs return all objects", metricsFrom: "10 LISTs that return half of all or more, 10,000 together",
	ofResource: findFull, change: pollingKind.change,
}

// findFull finds LISTs that return half of all objects and more.
func findFull(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	n, returned := r.Cache.Lists+r.Etcd.Lists, r.Returned()
	return Finding{
		Count: int64(n), Seconds: r.ListSeconds, Objects: int64(r.Read()),
		Text: fmt.Sprintf("%s LISTs of %s returned %s objects, of %s that there are, in %s: a client LISTs all of them again and again",
			humanize.Rounded(n), r.Name, humanize.Rounded(returned), humanize.Rounded(r.Objects), humanize.Bytes(int64(r.ListBytes))),
		Remedy: "an informer, which LISTs once and then WATCHes",
	}, n >= perMinute(fullLists, seconds) && returned >= max(perMinute(fullObjects, seconds), r.Objects/2*n) && r.Objects > 0
}
