package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingEtcd = "etcd"

	etcdObjects = 10_000 // that LISTs read from etcd in a minute
)

var etcdKind = &kind{
	name: FindingEtcd, incident: "concurrent-lists",
	metricsDo: "LISTs are not answered from the watch cache", metricsFrom: "10,000 objects",
	ofResource: findEtcd, change: pollingKind.change,
}

// findEtcd finds LISTs that read from etcd. The server itself reads all objects from etcd every 5
// to 7.5 minutes, to compare them with the watch cache. It counts a check when that ends; if there
// are no LISTs, the last check may still run. LISTs of Events may be counted as requests of another
// group, events.k8s.io, which has the same objects.
func findEtcd(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	read, lists := r.Etcd.Read-r.Checks*r.Objects, r.Etcd.Lists
	if r.Lists < 1 {
		read -= r.Objects
	} else {
		// The other LISTs are pages of checks. Each check also LISTs from the watch cache.
		lists = min(lists, r.Lists-(r.Cache.Lists-r.Checks))
	}
	return Finding{
		Count: int64(lists), Seconds: r.ListSeconds, Objects: int64(read),
		Text: fmt.Sprintf("%s LISTs of %s read %s objects from etcd, which the watch cache could not or may not answer",
			humanize.Rounded(lists), r.Name, humanize.Rounded(read)),
		Remedy: "resourceVersion=0, or an informer; servers before 1.31 answer no LIST without resourceVersion from their cache",
	}, read >= perMinute(etcdObjects, seconds) && lists >= 1
}
