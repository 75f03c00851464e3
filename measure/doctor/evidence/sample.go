package evidence

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// ErrNotAPIServer is returned by ReadMetrics if the text is not from a kube-apiserver.
var ErrNotAPIServer = errors.New("not the metrics of a kube-apiserver")

// Sample contains the values of kube-apiserver's /metrics at one time. The values do not name
// clients. Counters start at 0 when the process starts.
type Sample struct {
	Version    string  // such as v1.37.2; empty if unknown
	Started    float64 // when the process started, in Unix seconds
	CPUSeconds float64
	RSSBytes   float64
	Allocated  float64 // bytes that Go's heap has allocated
	Requests   float64
	Refused    float64 // 429
	Failed     float64 // 5xx
	Resources  map[string]*ResourceMetrics
	Levels     map[string]*LevelMetrics

	known    bool                // the text has a metric that only API servers have
	cacheOld map[string]listings // from the watch cache, by the names of servers before 1.37
	cacheNew bool                // the server uses the names of 1.37 and later
}

// ResourceMetrics contains the counts of one resource. Each page of a LIST counts as a LIST.
type ResourceMetrics struct {
	Name          string   `json:"resource"` // kubectl's name, such as deployments.apps
	Objects       float64  `json:"objects"`  // at the end
	Bytes         float64  `json:"bytes"`    // of all objects, as stored; 0 if unknown
	Lists         float64  `json:"lists"`
	ListSeconds   float64  `json:"listSeconds"`
	ListBytes     float64  `json:"listBytes"` // sent, before compression
	FailedLists   float64  `json:"failedLists"`
	Cache         listings `json:"watchCache"`        // LISTs that the watch cache answered
	Etcd          listings `json:"etcd"`              // LISTs that etcd answered
	Checks        float64  `json:"consistencyChecks"` // each LISTs all objects from etcd
	OpenWatches   float64  `json:"openWatches"`
	EndedWatches  float64  `json:"endedWatches"`
	SlowWatches   float64  `json:"slowWatches"` // ended because their clients read too slowly
	WatchEvents   float64  `json:"watchEvents"`
	WatchBytes    float64  `json:"watchBytes"`
	InitialEvents float64  `json:"initialEvents"` // objects sent at the start of WATCHes
}

// listings count LISTs, the objects that the server read for them, and the objects that they
// returned.
type listings struct {
	Lists    float64 `json:"lists"`
	Read     float64 `json:"read"`
	Returned float64 `json:"returned"`
}

// LevelMetrics contains the counts of one priority level of API Priority and Fairness.
type LevelMetrics struct {
	Name        string             `json:"priorityLevel"`
	Seats       float64            `json:"seats"` // that are in use
	Limit       float64            `json:"limit"` // of seats
	Waited      float64            `json:"waited"`
	WaitSeconds float64            `json:"waitSeconds"` // of all requests together
	Rejected    map[string]float64 `json:"rejected,omitempty"`
}

// ReadMetrics reads metrics in Prometheus' text format. It stores only the metrics that it uses: a
// few hundred KB of the tens of MB that the server of a large cluster writes.
func ReadMetrics(r io.Reader) (*Sample, error) {
	s := &Sample{Resources: map[string]*ResourceMetrics{}, Levels: map[string]*LevelMetrics{}, cacheOld: map[string]listings{}}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scanner.Scan() {
		// Skip comments, which contain the types. Sum and count of a histogram are separate metrics.
		line := scanner.Bytes()
		name := nameOf(line)
		take := metrics[name]
		if take == nil {
			continue
		}
		l, v, err := parseLine(string(line[len(name):]))
		if err != nil {
			return nil, fmt.Errorf("read /metrics: %s: %w", name, err)
		}
		take(s, l, v)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read /metrics: %w", err)
	}
	if !s.known || s.Started == 0 {
		return nil, ErrNotAPIServer
	}
	if !s.cacheNew {
		for name, l := range s.cacheOld {
			s.resource(name).Cache = l
		}
	}
	return s, nil
}

// resource returns kubectl's name of the labels' resource. In some metrics of servers before 1.34,
// the label "resource" already contains that name.
func (l labels) resource() string {
	resource, group := l.get("resource"), l.get("group")
	if group == "" || strings.HasSuffix(resource, "."+group) {
		return resource
	}
	return resource + "." + group
}

// resource returns the counts of a resource. It adds the resource if s does not contain it.
func (s *Sample) resource(name string) *ResourceMetrics {
	r := s.Resources[name]
	if r == nil {
		r = &ResourceMetrics{Name: name}
		s.Resources[name] = r
	}
	return r
}

// level returns the counts of a priority level. It adds the level if s does not contain it.
func (s *Sample) level(name string) *LevelMetrics {
	l := s.Levels[name]
	if l == nil {
		l = &LevelMetrics{Name: name, Rejected: map[string]float64{}}
		s.Levels[name] = l
	}
	return l
}

// ErrAnotherServer is returned by CompareMetrics if two samples are from different processes:
// either a load balancer distributes requests over several API servers, or the server has
// restarted.
var ErrAnotherServer = errors.New("another kube-apiserver answered, or it has restarted")

// MetricsReport describes what happened between two samples of one server. Counters have their
// growth in that period. Other values, such as objects and open WATCHes, are from the end of the
// period.
type MetricsReport struct {
	Version   string            `json:"version,omitempty"`
	Seconds   float64           `json:"seconds"`
	Uptime    float64           `json:"uptimeSeconds"`
	CPUCores  float64           `json:"cpuCores"`
	RSSBytes  float64           `json:"rssBytes"`
	Allocated float64           `json:"allocatedBytes"`
	Requests  float64           `json:"requests"`
	Refused   float64           `json:"refused"` // 429
	Failed    float64           `json:"failed"`  // 5xx
	Resources []ResourceMetrics `json:"resources"`
	Levels    []LevelMetrics    `json:"priorityLevels"`
}

// CompareMetrics returns the difference of two samples. seconds is the time between them, and now
// is the time of the later one, in Unix seconds. The only error is ErrAnotherServer.
func CompareMetrics(before, after *Sample, seconds, now float64) (*MetricsReport, error) {
	if before.Started != after.Started {
		return nil, ErrAnotherServer
	}
	r := &MetricsReport{
		Version: after.Version, Seconds: seconds, Uptime: max(now-after.Started, 0),
		CPUCores: (after.CPUSeconds - before.CPUSeconds) / seconds, RSSBytes: after.RSSBytes,
		Allocated: after.Allocated - before.Allocated, Requests: after.Requests - before.Requests,
		Refused: after.Refused - before.Refused, Failed: after.Failed - before.Failed,
		Resources: []ResourceMetrics{}, Levels: []LevelMetrics{},
	}
	for _, name := range slices.Sorted(maps.Keys(after.Resources)) {
		was := cmp.Or(before.Resources[name], &ResourceMetrics{})
		r.Resources = append(r.Resources, after.Resources[name].since(was))
	}
	for _, name := range slices.Sorted(maps.Keys(after.Levels)) {
		was := cmp.Or(before.Levels[name], &LevelMetrics{})
		r.Levels = append(r.Levels, after.Levels[name].since(was))
	}
	slices.SortStableFunc(r.Resources, func(a, b ResourceMetrics) int {
		return cmp.Or(cmp.Compare(b.Read(), a.Read()), cmp.Compare(b.ListSeconds, a.ListSeconds), cmp.Compare(b.WatchBytes, a.WatchBytes),
			cmp.Compare(b.EndedWatches, a.EndedWatches), cmp.Compare(b.Objects, a.Objects))
	})
	return r, nil
}

// Read returns the number of objects that the server read to answer LISTs.
func (r *ResourceMetrics) Read() float64 { return r.Cache.Read + r.Etcd.Read }

// Returned returns the number of objects that LISTs returned.
func (r *ResourceMetrics) Returned() float64 { return r.Cache.Returned + r.Etcd.Returned }

// since returns a copy of r whose counters contain the difference from an earlier sample (was).
func (r *ResourceMetrics) since(was *ResourceMetrics) ResourceMetrics {
	return ResourceMetrics{
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

// since returns a copy of l whose counters contain the difference from an earlier sample (was).
func (l *LevelMetrics) since(was *LevelMetrics) LevelMetrics {
	d := LevelMetrics{Name: l.Name, Seats: l.Seats, Limit: l.Limit, Waited: l.Waited - was.Waited, WaitSeconds: l.WaitSeconds - was.WaitSeconds, Rejected: map[string]float64{}}
	for schema, n := range l.Rejected {
		if n -= was.Rejected[schema]; n > 0 {
			d.Rejected[schema] = n
		}
	}
	return d
}
