package seats

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	bySeat = []string{"request_kind", "level"}

	descInflight = prometheus.NewDesc("apiserver_current_inflight_requests",
		"The most requests that were under way at once in the last second.", []string{"request_kind"}, nil)
	descSeats = prometheus.NewDesc("weir_proxy_seats",
		"Requests that have a seat.", bySeat, nil)
	descWaiting = prometheus.NewDesc("weir_proxy_seat_queue_length",
		"Requests that wait for a seat.", bySeat, nil)
	descWatchBudget = prometheus.NewDesc("weir_proxy_watch_memory_budget_bytes",
		"The bound of the memory of all watches; 0: none.", nil, nil)
	descWatchUsed = prometheus.NewDesc("weir_proxy_watch_memory_used_bytes",
		"The memory of all watches, with their connections and what is kept for slow ones.", nil, nil)
	descWatchLate = prometheus.NewDesc("weir_proxy_watch_memory_late_bytes",
		"The part of the memory of watches that is kept for slow ones.", nil, nil)
	descWatchRefused = prometheus.NewDesc("weir_proxy_watches_refused_total",
		"Watches, logs and upgraded connections that were refused, for all: too many altogether; user: too many of one user; memory: none is left for watches.", []string{"for"}, nil)
	descUnreadBudget = prometheus.NewDesc("weir_proxy_response_memory_budget_bytes",
		"The bound of the memory of responses that wait for their clients to read them; 0: none.", nil, nil)
	descUnreadUsed = prometheus.NewDesc("weir_proxy_response_memory_used_bytes",
		"The memory of responses that wait for their clients to read them, of callers that are known or unknown.", []string{"level"}, nil)
	descUnreadRefused = prometheus.NewDesc("weir_proxy_response_memory_refused_total",
		"Reads that were refused because the responses that their callers have not read take all the memory that they may.", []string{"level"}, nil)
)

// Describe sends the descriptions of the metrics of Seats.
func Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descInflight, descSeats, descWaiting, descWatchBudget, descWatchUsed, descWatchLate, descWatchRefused, descUnreadBudget, descUnreadUsed, descUnreadRefused} {
		ch <- d
	}
}

// Collect sends the metrics.
func (s *Seats) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	now := time.Now()
	gauge(descInflight, int64(s.Reads.PeakInUse(now)), "readOnly")
	gauge(descInflight, int64(s.Writes.PeakInUse(now)), "mutating")
	for requestKind, p := range map[string]*Pool{"readOnly": s.Reads, "mutating": s.Writes, "watchStart": s.Starts} {
		taken, waiting := p.Counts()
		for level := range Levels {
			gauge(descSeats, int64(taken[level]), requestKind, level.String())
			gauge(descWaiting, int64(waiting[level]), requestKind, level.String())
		}
	}
	w := s.Watches
	gauge(descWatchBudget, max(w.Memory.Limit(), 0))
	gauge(descWatchUsed, w.Memory.Used())
	gauge(descWatchLate, w.kept())
	for limit, why := range [limits]string{limitTotal: "all", limitUser: "user", limitMemory: "memory"} {
		counter(descWatchRefused, w.refused[limit].Load(), why)
	}
	gauge(descUnreadBudget, max(s.Unread.Limit(), 0))
	for _, l := range s.Unread.Usage() {
		gauge(descUnreadUsed, l.Used, l.Level)
		counter(descUnreadRefused, l.Refused, l.Level)
	}
}
