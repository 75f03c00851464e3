package doctor

import (
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingFailing = "failing"

	// A LIST that fails immediately costs nothing, and every informer retries it.
	vainLists   = 20
	vainLatency = 5 * time.Second

	failedPerMinute = 5 // by metrics
)

var failingKind = &kind{
	name:     FindingFailing,
	does:     "LISTs, waits long, fails, and tries again",
	from:     "20 LISTs that fail with 5xx, after 5 s on average",
	incident: "concurrent-lists",
	find:     findFailing,

	metricsDo: "LISTs fail with 5xx", metricsFrom: "5",
	ofResource: findFailed,

	change: func(a api, _ *usage) string {
		return fmt.Sprintf("pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) "+
			"{ return %s.List(ctx, o) }).EachListItem(ctx, metav1.ListOptions{Limit: 500}, each)", a.client())
	},
	kubectl:  func(a api) string { return a.kubectl() + " --chunk-size=500 # the default: answers in pages" },
	remedies: []remedy{inPages, cached, newInformer, proxied},
}

// findFailed finds LISTs that fail.
func findFailed(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	return Finding{
		Count: int64(r.FailedLists), Seconds: r.ListSeconds,
		Text:   fmt.Sprintf("%s LISTs of %s failed (5xx), of %s", humanize.Rounded(r.FailedLists), r.Name, humanize.Rounded(r.Lists)),
		Remedy: "pages (limit=500) or resourceVersion=0, if they fail for taking longer than a minute",
	}, r.FailedLists >= perMinute(failedPerMinute, seconds)
}

// findFailing finds LISTs that take long, fail, and are retried.
func findFailing(u subject) (Finding, bool) {
	n, took := u.vain.requests, u.vain.latency
	if n < vainLists || took < time.Duration(n)*vainLatency {
		return Finding{}, false
	}
	return Finding{
		Count: n, Seconds: took.Seconds(),
		Text: fmt.Sprintf("LISTs %s in vain: %s of %s LISTs failed with 5xx, after %s on average", u.resource, humanize.Count(n),
			humanize.Count(u.tally[verbList].requests), humanize.Seconds(took.Seconds()/float64(n))),
		Remedy: "LIST in pages, with limit, or from the watch cache, with resourceVersion=0; find in the server's log why they fail",
	}, true
}
