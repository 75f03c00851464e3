package apimetrics

import "strings"

// metrics says what is done with the values of each metric that is read. The names are those of
// k8s.io/apiserver 0.37, and earlier ones of objects and of the watch cache: pkg/endpoints/metrics,
// pkg/storage/metrics, pkg/storage/etcd3/metrics, pkg/storage/cacher/metrics and
// pkg/util/flowcontrol/metrics.
var metrics = map[string]func(s *Sample, l labels, v float64){
	"kubernetes_build_info":         func(s *Sample, l labels, _ float64) { s.Version = l.get("git_version") },
	"process_start_time_seconds":    func(s *Sample, _ labels, v float64) { s.Started = v },
	"process_cpu_seconds_total":     func(s *Sample, _ labels, v float64) { s.CPUSeconds = v },
	"process_resident_memory_bytes": func(s *Sample, _ labels, v float64) { s.RSSBytes = v },
	"go_memstats_alloc_bytes_total": func(s *Sample, _ labels, v float64) { s.Allocated = v },

	"apiserver_request_total": (*Sample).addRequests,
	"apiserver_request_duration_seconds_sum": ofLists(func(r *Resource, v float64) {
		r.ListSeconds += v
	}),
	"apiserver_response_sizes_sum": ofLists(func(r *Resource, v float64) { r.ListBytes += v }),
	"apiserver_longrunning_requests": func(s *Sample, l labels, v float64) {
		if l.get("verb") == "WATCH" && l.get("resource") != "" {
			s.resource(l.resource()).OpenWatches += v
		}
	},
	"apiserver_watch_events_total":     ofResource(func(r *Resource, v float64) { r.WatchEvents += v }),
	"apiserver_watch_events_sizes_sum": ofResource(func(r *Resource, v float64) { r.WatchBytes += v }),
	"apiserver_terminated_watchers_total": ofResource(func(r *Resource, v float64) {
		r.SlowWatches += v
	}),
	"apiserver_init_events_total": ofResource(func(r *Resource, v float64) { r.InitialEvents += v }),

	"apiserver_resource_objects":             ofResource(func(r *Resource, v float64) { r.Objects = max(r.Objects, v) }),
	"apiserver_storage_objects":              ofResource(func(r *Resource, v float64) { r.Objects = max(r.Objects, v) }),
	"apiserver_resource_size_estimate_bytes": ofResource(func(r *Resource, v float64) { r.Bytes = max(r.Bytes, v) }),

	"apiserver_storage_list_total":                  ofStorage(func(l *listings, v float64) { l.Lists += v }),
	"apiserver_storage_list_fetched_objects_total":  ofStorage(func(l *listings, v float64) { l.Read += v }),
	"apiserver_storage_list_returned_objects_total": ofStorage(func(l *listings, v float64) { l.Returned += v }),
	"apiserver_cache_list_total":                    ofCache(func(l *listings, v float64) { l.Lists += v }),
	"apiserver_cache_list_fetched_objects_total":    ofCache(func(l *listings, v float64) { l.Read += v }),
	"apiserver_cache_list_returned_objects_total":   ofCache(func(l *listings, v float64) { l.Returned += v }),
	"apiserver_storage_consistency_checks_total": func(s *Sample, l labels, v float64) {
		if l.get("status") != "error" { // which may have read nothing, for want of a watch cache
			s.resource(l.resource()).Checks += v
		}
	},

	"apiserver_flowcontrol_rejected_requests_total": func(s *Sample, l labels, v float64) {
		s.level(l.get("priority_level")).Rejected[l.get("flow_schema")] += v
	},
	"apiserver_flowcontrol_current_executing_seats": ofLevel(func(p *Level, v float64) { p.Seats += v }),
	"apiserver_flowcontrol_current_limit_seats":     ofLevel(func(p *Level, v float64) { p.Limit += v }),
	"apiserver_flowcontrol_request_wait_duration_seconds_sum": ofLevel(func(p *Level, v float64) {
		p.WaitSeconds += v
	}),
	"apiserver_flowcontrol_request_wait_duration_seconds_count": ofLevel(func(p *Level, v float64) {
		p.Waited += v
	}),
}

// addRequests adds requests of one verb, resource and code. A WATCH is counted when it ends, unless
// it was refused, so that it never began.
func (s *Sample) addRequests(l labels, v float64) {
	s.known = true
	s.Requests += v
	code, verb := l.get("code"), l.get("verb")
	failed := strings.HasPrefix(code, "5")
	switch {
	case code == "429":
		s.Refused += v
	case failed:
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

// ofLists adds a value to the LISTs of its resource.
func ofLists(add func(*Resource, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		if l.get("verb") == "LIST" && l.get("subresource") == "" {
			add(s.resource(l.resource()), v)
		}
	}
}

// ofResource adds a value to its resource. Servers before 1.34 name the kind in some metrics of
// watches, which is left out.
func ofResource(add func(*Resource, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		if l.get("resource") != "" {
			add(s.resource(l.resource()), v)
		}
	}
}

// ofStorage adds a value to the LISTs of what answered them. Where no storage is named it was etcd.
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

// ofCache adds a value to the LISTs that the watch cache answered, which later servers count among
// those of storage.
func ofCache(add func(*listings, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) {
		name := l.resource()
		counts := s.cacheOld[name]
		add(&counts, v)
		s.cacheOld[name] = counts
	}
}

// ofLevel adds a value to its priority level.
func ofLevel(add func(*Level, float64)) func(*Sample, labels, float64) {
	return func(s *Sample, l labels, v float64) { add(s.level(l.get("priority_level")), v) }
}
