package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingSelectors = "selectors"

	selectorReads = 100_000 // objects that the server looks at in a minute
	selectorRatio = 10      // for each that it returns
)

var selectorsKind = &kind{
	name: FindingSelectors, incident: "resync-storm",
	metricsDo: "LISTs look at many more objects than they return", metricsFrom: "100,000 objects, 10 for each that is returned",
	ofResource: findSelectors, change: partKind.change,
}

// findSelectors finds LISTs that look at many objects for each that they return.
func findSelectors(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	l := r.Cache
	return Finding{
		Count: int64(l.Lists), Seconds: r.ListSeconds, Objects: int64(l.Read),
		Text: fmt.Sprintf("LISTs of %s looked at %s objects to return %s: selectors, which the watch cache has no index for",
			r.Name, humanize.Rounded(l.Read), humanize.Rounded(l.Returned)),
		Remedy: "an informer with an index, in the client; or one by spec.nodeName, which kube-apiserver has an index for",
	}, l.Read >= perMinute(selectorReads, seconds) && l.Read >= selectorRatio*max(l.Returned, 1)
}
