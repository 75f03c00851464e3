package apimetrics

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/weirproject/weir/internal/doctor"
)

// ErrAnotherServer is returned by Compare if two samples are of different processes: a load
// balancer stands in front of several API servers, or the only one has restarted.
var ErrAnotherServer = errors.New("another kube-apiserver answered, or it has restarted")

// Report is what happened between two samples of one server. Counts are of that time; what there
// is, such as objects and open watches, is as of its end.
type Report struct {
	Version   string           `json:"version,omitempty"`
	Seconds   float64          `json:"seconds"`
	Uptime    float64          `json:"uptimeSeconds"`
	CPUCores  float64          `json:"cpuCores"`
	RSSBytes  float64          `json:"rssBytes"`
	Allocated float64          `json:"allocatedBytes"`
	Requests  float64          `json:"requests"`
	Refused   float64          `json:"refused"` // 429
	Failed    float64          `json:"failed"`  // 5xx
	Resources []Resource       `json:"resources"`
	Levels    []Level          `json:"priorityLevels"`
	Findings  []doctor.Finding `json:"findings"` // the costliest first; never null; without clients
}

// Compare returns what happened between two samples that were taken seconds apart. now is the time
// of the later one, in Unix seconds. The only error is ErrAnotherServer.
func Compare(before, after *Sample, seconds, now float64) (*Report, error) {
	if before.Started != after.Started {
		return nil, ErrAnotherServer
	}
	r := &Report{
		Version: after.Version, Seconds: seconds, Uptime: max(now-after.Started, 0),
		CPUCores: (after.CPUSeconds - before.CPUSeconds) / seconds, RSSBytes: after.RSSBytes,
		Allocated: after.Allocated - before.Allocated, Requests: after.Requests - before.Requests,
		Refused: after.Refused - before.Refused, Failed: after.Failed - before.Failed,
		Resources: []Resource{}, Levels: []Level{},
	}
	for _, name := range slices.Sorted(maps.Keys(after.Resources)) {
		was := before.Resources[name]
		if was == nil {
			was = &Resource{}
		}
		r.Resources = append(r.Resources, after.Resources[name].since(was))
	}
	for _, name := range slices.Sorted(maps.Keys(after.Levels)) {
		was := before.Levels[name]
		if was == nil {
			was = &Level{}
		}
		r.Levels = append(r.Levels, after.Levels[name].since(was))
	}
	slices.SortStableFunc(r.Resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(b.read(), a.read()), cmp.Compare(b.ListSeconds, a.ListSeconds), cmp.Compare(b.WatchBytes, a.WatchBytes),
			cmp.Compare(b.EndedWatches, a.EndedWatches), cmp.Compare(b.Objects, a.Objects))
	})
	r.Findings = findings(r)
	return r, nil
}

// read returns how many objects were looked at for LISTs.
func (r *Resource) read() float64 { return r.Cache.Read + r.Etcd.Read }

// returned returns how many objects LISTs had in their answers.
func (r *Resource) returned() float64 { return r.Cache.Returned + r.Etcd.Returned }

// since returns r with what its counters have grown by since was.
func (r *Resource) since(was *Resource) Resource {
	return Resource{
		Name: r.Name, Objects: max(r.Objects, 0), Bytes: max(r.Bytes, 0), OpenWatches: r.OpenWatches,
		Lists: r.Lists - was.Lists, ListSeconds: r.ListSeconds - was.ListSeconds, ListBytes: r.ListBytes - was.ListBytes,
		FailedLists: r.FailedLists - was.FailedLists, Cache: r.Cache.since(was.Cache), Etcd: r.Etcd.since(was.Etcd),
		Checks: r.Checks - was.Checks, EndedWatches: r.EndedWatches - was.EndedWatches, SlowWatches: r.SlowWatches - was.SlowWatches,
		WatchEvents: r.WatchEvents - was.WatchEvents, WatchBytes: r.WatchBytes - was.WatchBytes,
		InitialEvents: r.InitialEvents - was.InitialEvents,
	}
}

func (l listings) since(was listings) listings {
	return listings{Lists: l.Lists - was.Lists, Read: l.Read - was.Read, Returned: l.Returned - was.Returned}
}

// since returns l with what its counters have grown by since was.
func (l *Level) since(was *Level) Level {
	d := Level{Name: l.Name, Seats: l.Seats, Limit: l.Limit, Waited: l.Waited - was.Waited, WaitSeconds: l.WaitSeconds - was.WaitSeconds, Rejected: map[string]float64{}}
	for schema, n := range l.Rejected {
		if n -= was.Rejected[schema]; n > 0 {
			d.Rejected[schema] = n
		}
	}
	return d
}
