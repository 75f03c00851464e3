package seats

import "time"

// Metrics reports the metrics of Seats by calls of gauge and counter. In labels, names and values
// alternate.
func (s *Seats) Metrics(gauge, counter func(name, help string, value float64, labels ...string)) {
	now := time.Now()
	for requestKind, p := range map[string]*Pool{"readOnly": s.Reads, "mutating": s.Writes} {
		gauge("apiserver_current_inflight_requests", "The largest number of requests that were in progress at the same time in the last second.",
			float64(p.PeakInUse(now)), "request_kind", requestKind)
	}
	for requestKind, p := range map[string]*Pool{"readOnly": s.Reads, "mutating": s.Writes, "watchStart": s.Starts} {
		taken, waiting := p.Counts()
		for level := range Levels {
			gauge("weir_proxy_seats", "Requests that have a seat.", float64(taken[level]), "request_kind", requestKind, "level", level.String())
			gauge("weir_proxy_seat_queue_length", "Requests that wait for a seat.", float64(waiting[level]), "request_kind", requestKind, "level", level.String())
		}
	}
	w := s.Watches
	gauge("weir_proxy_watch_memory_budget_bytes", "The limit of the memory of all watches; 0: no limit.", float64(max(w.Memory.Limit(), 0)))
	gauge("weir_proxy_watch_memory_used_bytes", "The memory of all watches, including their connections and the changes that wait for slow ones.", float64(w.Memory.Used()))
	gauge("weir_proxy_watch_memory_late_bytes", "The memory of the changes that wait for slow watches.", float64(w.kept()))
	for limit, why := range [limits]string{limitTotal: "all", limitUser: "user", limitMemory: "memory"} {
		counter("weir_proxy_watches_refused_total",
			"Watches, logs and upgraded connections that the proxy refused. all: too many of all users; user: too many of one user; memory: the memory for watches was used up.",
			float64(w.refused[limit].Load()), "for", why)
	}
	gauge("weir_proxy_response_memory_budget_bytes", "The limit of the memory of responses that wait for their clients to read them; 0: no limit.", float64(max(s.Unread.Limit(), 0)))
	for _, l := range s.Unread.Usage() {
		gauge("weir_proxy_response_memory_used_bytes", "The memory of responses that wait for their clients to read them, of callers that are known or unknown.",
			float64(l.Used), "level", l.Level)
		counter("weir_proxy_response_memory_refused_total",
			"Reads that the proxy refused because their callers' unread responses had used up their memory.", float64(l.Refused), "level", l.Level)
	}
}
