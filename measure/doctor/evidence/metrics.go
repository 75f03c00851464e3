package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// metrics contains, for each metric that ReadMetrics uses, a function that adds the metric's value
// to a sample. The names are from k8s.io/apiserver 0.37; for the counts of objects and of the watch
// cache there are also the earlier names. The metrics are defined in pkg/endpoints/metrics,
// pkg/storage/metrics, pkg/storage/etcd3/metrics, pkg/storage/cacher/metrics and
// pkg/util/flowcontrol/metrics.
var metrics = map[string]func(s *Sample, l labels, v float64){
	"kubernetes_build_info":         func(s *Sample, l labels, _ float64) { s.Version = l.get("git_version") },
	"process_start_time_seconds":    func(s *Sample, _ labels, v float64) { s.Started = v },
	"process_cpu_seconds_total":     func(s *Sample, _ labels, v float64) { s.CPUSeconds = v },
	"process_resident_memory_bytes": func(s *Sample, _ labels, v float64) { s.RSSBytes = v },
	"go_memstats_alloc_bytes_total": func(s *Sample, _ labels, v float64) { s.Allocated = v },

	"apiserver_request_total": (*Sample).addRequests,
	"apiserver_request_duration_seconds_sum": ofLists(func(r *ResourceMetrics, v float64) {
		r.ListSeconds += v
	}),
	"apiserver_response_sizes_sum": ofLists(func(r *ResourceMetrics, v float64) { r.ListBytes += v }),
	"apiserver_longrunning_requests": func(s *Sample, l labels, v float64) {
		if l.get("verb") == "WATCH" && l.get("resource") != "" {
			s.resource(l.resource()).OpenWatches += v
		}
	},
	"apiserver_watch_events_total":     ofResource(func(r *ResourceMetrics, v float64) { r.WatchEvents += v }),
	"apiserver_watch_events_sizes_sum": ofResource(func(r *ResourceMetrics, v float64) { r.WatchBytes += v }),
	"apiserver_terminated_watchers_total": ofResource(func(r *ResourceMetrics, v float64) {
		r.SlowWatches += v
	}),
	"apiserver_init_events_total": ofResource(func(r *ResourceMetrics, v float64) { r.InitialEvents += v }),

	"apiserver_resource_objects":             ofResource(func(r *ResourceMetrics, v float64) { r.Objects = max(r.Objects, v) }),
	"apiserver_storage_objects":              ofResource(func(r *ResourceMetrics, v float64) { r.Objects = max(r.Objects, v) }),
	"apiserver_resource_size_estimate_bytes": ofResource(func(r *ResourceMetrics, v float64) { r.Bytes = max(r.Bytes, v) }),

	"apiserver_storage_list_total":                  ofStorage(func(l *listings, v float64) { l.Lists += v }),
	"apiserver_storage_list_fetched_objects_total":  ofStorage(func(l *listings, v float64) { l.Read += v }),
	"apiserver_storage_list_returned_objects_total": ofStorage(func(l *listings, v float64) { l.Returned += v }),
	"apiserver_cache_list_total":                    ofCache(func(l *listings, v float64) { l.Lists += v }),
	"apiserver_cache_list_fetched_objects_total":    ofCache(func(l *listings, v float64) { l.Read += v }),
	"apiserver_cache_list_returned_objects_total":   ofCache(func(l *listings, v float64) { l.Returned += v }),
	"apiserver_storage_consistency_checks_total": func(s *Sample, l labels, v float64) {
		if l.get("status") != "error" { // a check that failed may have read nothing
			s.resource(l.resource()).Checks += v
		}
	},

	"apiserver_flowcontrol_rejected_requests_total": func(s *Sample, l labels, v float64) {
		s.level(l.get("priority_level")).Rejected[l.get("flow_schema")] += v
	},
	"apiserver_flowcontrol_current_executing_seats": ofLevel(func(p *LevelMetrics, v float64) { p.Seats += v }),
	"apiserver_flowcontrol_current_limit_seats":     ofLevel(func(p *LevelMetrics, v float64) { p.Limit += v }),
	"apiserver_flowcontrol_request_wait_duration_seconds_sum": ofLevel(func(p *LevelMetrics, v float64) {
		p.WaitSeconds += v
	}),
	"apiserver_flowcontrol_request_wait_duration_seconds_count": ofLevel(func(p *LevelMetrics, v float64) {
		p.Waited += v
	}),
}

// addRequests adds the count of requests with one verb, resource and code. The server counts a
// WATCH when it ends. The server also counts a WATCH that it refused. addRequests does not count
// such a WATCH as ended, because it never started.
func (s *Sample) addRequests(l labels, v float64) {
	s.known = true
	s.Requests += v
	code, verb := l.get("code"), l.get("verb")
	failed := strings.HasPrefix(code, "5")
	if code == "429" {
		s.Refused += v
	} else if failed {
		s.Failed += v
	}
	if l.get("resource") == "" || l.get("subresource") != "" {
		return
	}
	switch verb {
	case "LIST":
		r := s.resource(l.resource())
		if r.Lists += v; failed {
			r.FailedLists += v
		}
	case "WATCH":
		if !failed && !strings.HasPrefix(code, "4") {
			s.resource(l.resource()).EndedWatches += v
		}
	}
}

// ofLists returns a function that adds a value to the LISTs of the value's resource.
func ofLists(add func(*ResourceMetrics, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		if l.get("verb") == "LIST" && l.get("subresource") == "" {
			add(s.resource(l.resource()), v)
		}
	}
}

// ofResource returns a function that adds a value to the value's resource. The function ignores
// metrics of WATCHes that name the kind instead of the resource, as servers before 1.34 write them.
func ofResource(add func(*ResourceMetrics, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		if l.get("resource") != "" {
			add(s.resource(l.resource()), v)
		}
	}
}

// ofStorage returns a function that adds a value to a resource's LISTs. If the labels name the
// watch cache, these are the LISTs that the watch cache answered. Otherwise they are the LISTs that
// etcd answered.
func ofStorage(add func(*listings, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		r := s.resource(l.resource())
		if l.get("storage") != "watchcache" {
			add(&r.Etcd, v)
			return
		}
		s.cacheNew = true
		add(&r.Cache, v)
	}
}

// ofCache returns a function for metrics with the names of older servers. It adds a value to the
// LISTs of a resource that the watch cache answered.
func ofCache(add func(*listings, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		name := l.resource()
		counts := s.cacheOld[name]
		add(&counts, v)
		s.cacheOld[name] = counts
	}
}

// ofLevel returns a function that adds a value to the value's priority level.
func ofLevel(add func(*LevelMetrics, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) { add(s.level(l.get("priority_level")), v) }
}

// maxLine limits the length of a line of /metrics. The lines that are used have less than 1 KB.
const maxLine = 1 << 20

// labels are the labels of one metric: their values by name.
type labels map[string]string

func (l labels) get(name string) string { return l[name] }

var errLabels = errors.New("malformed labels")

// nameOf returns the metric's name at the start of a line in Prometheus' text format.
func nameOf(line []byte) string {
	return string(line[:max(0, bytes.IndexAny(line, "{ \t"))])
}

// parseLine parses the rest of a line in Prometheus' text format: labels, a value and a time. It
// ignores the time; kube-apiserver writes none. weir does not use Prometheus' own parser, which
// links protocol buffers and would make weir a twelfth larger. Tests compare the two parsers.
func parseLine(rest string) (l labels, v float64, err error) {
	if inside, ok := strings.CutPrefix(strings.TrimSpace(rest), "{"); ok {
		if l, rest, err = parseLabels(inside); err != nil {
			return nil, 0, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 || len(fields) > 2 {
		return nil, 0, fmt.Errorf("expected float as value, got %.80q", rest)
	}
	if v, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return nil, 0, fmt.Errorf("expected float as value, got %.80q", fields[0])
	}
	return l, v, nil
}

// parseLabels parses labels that follow an opening brace, and returns the text after the closing
// brace. It unquotes values like Go strings, because Prometheus' escapes are a subset of Go's.
func parseLabels(s string) (l labels, rest string, err error) {
	l = labels{}
	for s = strings.TrimSpace(s); !strings.HasPrefix(s, "}"); {
		name, after, _ := strings.Cut(s, "=")
		name, after = strings.TrimSpace(name), strings.TrimSpace(after)
		quoted, err := strconv.QuotedPrefix(after)
		if _, twice := l[name]; err != nil || name == "" || twice {
			return nil, "", errLabels
		}
		if l[name], err = strconv.Unquote(quoted); err != nil {
			return nil, "", errLabels
		}
		var more bool
		s, more = strings.CutPrefix(strings.TrimSpace(after[len(quoted):]), ",")
		if s = strings.TrimSpace(s); !more && !strings.HasPrefix(s, "}") {
			return nil, "", errLabels
		}
	}
	return l, s[1:], nil
}
